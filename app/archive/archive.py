"""The objects of the archive, and what may be read of them.

    certifications/ID/ORDER-STATUS-SHA256.json          the certification as the service answers it
    certifications/ID/ORDER-STATUS-SHA256.intoto.jsonl  its certificates, signed, where the service has a key
    certifications/ID/images-SHA256.npy                 its images, only where the request asks for it
    owners/key-OWNER/ORDER-ID.json                      the entry: a summary for lists

ORDER decreases with the time of creation, so that names sort with the newest in front. The entry is written last and
removed first: a certification without an entry does not count as archived. The sha256 is that of the object, which
`smoothcert verify` reads as it is. The same certification always becomes the same objects, so that writing it again
changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.archive.storage import Storage
from app.redis.cursor import LATEST, Cursor
from smoothcert.certification import Status
from smoothcert.errors import SmoothcertError
from store.record import Record

LAST = int(LATEST * 1e6)
"""More than the microseconds of any time of creation."""

TIES = 16
"""More than one owner creates in the same microsecond."""

_ID = re.compile(r"cert_[0-9a-f]{32}")
_IMAGES = re.compile(r"images-[0-9a-f]{64}\.npy")
_OBJECT = re.compile(r"(\d{16})-([a-z]+)-([0-9a-f]{64})\.json")

logger = logging.getLogger(__name__)


class DamagedError(SmoothcertError):
    """An object that is not what its name says."""


@dataclass(frozen=True)
class KeptCertification:
    """A certification in the archive."""

    text: str
    """The answer, as the service gave it."""

    @property
    def certificates(self) -> dict[int, str]:
        """Each as JSON, by the index of its image."""
        return {each["index"]: json.dumps(each) for each in json.loads(self.text)["certificates"]}


@dataclass(frozen=True)
class ArchiveEntry:
    """A certification in a list."""

    cursor: Cursor
    summary: str


@dataclass(frozen=True)
class EntryPage:
    """Entries of an owner, the newest first."""

    entries: Sequence[ArchiveEntry]
    next: Cursor | None


@dataclass(frozen=True)
class _Place:
    """What the name of an object says."""

    order: str
    status: str
    digest: str

    @property
    def name(self) -> str:
        return f"{self.order}-{self.status}-{self.digest}.json"


class Archive:
    """Blocking; see `Archivist` for the threads."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def write(
        self, record: Record, text: str, summary: str, attestations: str | None, images: bytes | None = None
    ) -> None:
        """Write a certification that has ended; StorageError if it is not written completely.

        Images that are gone from Redis are here already: the call that lets them go says that they were written.
        """
        data = text.encode()
        place = _Place(_order(record.created_at), record.status, hashlib.sha256(data).hexdigest())
        folder = _folder(record.id)
        for name in self._storage.names(folder):
            written = name in (place.name, _sealed(place.name)) or _IMAGES.fullmatch(name)
            if not written:  # another version may write the same in other words
                self._storage.remove(f"{folder}/{name}")
        self._storage.write(f"{folder}/{place.name}", data)
        if attestations is not None:
            self._storage.write(f"{folder}/{_sealed(place.name)}", attestations.encode())
        if images is not None:
            self._storage.write(f"{folder}/images-{hashlib.sha256(images).hexdigest()}.npy", images)
        entry = json.dumps({"created_at": record.created_at, "sha256": place.digest, "summary": json.loads(summary)})
        self._storage.write(_entry(record.owner, place, record.id), entry.encode())

    def find(self, certification: str, *, owner: str) -> KeptCertification | None:
        """A certification of this owner; DamagedError if its object was altered or truncated."""
        place = self._place(certification)
        if place is None or self._storage.read(_entry(owner, place, certification)) is None:
            return None
        data = self._storage.read(f"{_folder(certification)}/{place.name}")
        if data is None:
            return None
        if (digest := hashlib.sha256(data).hexdigest()) != place.digest:
            raise DamagedError(
                f"the certification {certification} is damaged in the archive: its object has {len(data):,} bytes and "
                f"the sha256 {digest}, and by its name it must have {place.digest}"
            )
        return KeptCertification(data.decode())

    def erase(self, certification: str, *, owner: str) -> None:
        """Remove every object of a certification; nothing if there is none."""
        folder = _folder(certification)
        names = self._storage.names(folder)
        for place in filter(None, map(_read, names)):
            self._storage.remove(_entry(owner, place, certification))
        for name in sorted(names, key=lambda each: _read(each) is not None):  # what names the entry goes last
            self._storage.remove(f"{folder}/{name}")

    def page(self, owner: str, *, status: Status | None, limit: int, after: Cursor | None) -> EntryPage:
        """The next entries of an owner, the newest first."""
        folder, begin = f"owners/{_owned(owner)}", f"{_order(after.created_at)}-" if after else ""
        while True:
            names, more = self._whole_times(folder, begin, limit + 1)
            entries = [entry for name in names if (entry := self._read_entry(f"{folder}/{name}")) is not None]
            entries = [entry for entry in entries if after is None or entry.cursor < after]
            if entries or not more:
                break
            begin = names[-1]  # all of these were damaged, removed meanwhile, or of the page before
        found = [each for each in entries if status in (None, json.loads(each.summary)["status"])]
        return EntryPage(found, min((each.cursor for each in entries), default=None) if more else None)

    def _whole_times(self, folder: str, after: str, least: int) -> tuple[list[str], bool]:
        """The next names, and whether there are more after them.

        Of those that were created in the same microsecond, all or none are among them: names do not tell their order.
        """
        names = self._storage.names(folder, after=after, most=least + TIES)
        end = least
        while end < len(names) and _time(names[end]) == _time(names[end - 1]):
            end += 1
        return names[:end], end < len(names) or len(names) == least + TIES

    def _read_entry(self, name: str) -> ArchiveEntry | None:
        """An entry; None for one that was removed meanwhile, or that is damaged."""
        data = self._storage.read(name)
        if data is None:
            return None
        try:
            fields: dict[str, Any] = json.loads(data)
            summary = fields["summary"]
            cursor = Cursor(float(fields["created_at"]), str(summary["id"]))
            named = f"{_order(cursor.created_at)}-{cursor.certification}.json"
            if not (name.endswith(f"/{named}") and isinstance(summary["status"], str)):
                raise ValueError(f"it is the entry {named} with the status {summary['status']!r}")
            return ArchiveEntry(cursor, json.dumps(summary))
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            logger.error("the entry %s of the archive is damaged and left out of lists: %s", name, error)
            return None

    def _place(self, certification: str) -> _Place | None:
        if not _ID.fullmatch(certification):  # it comes from a client, and becomes a part of a path
            return None
        return next(filter(None, map(_read, self._storage.names(_folder(certification)))), None)


def _order(created_at: float) -> str:
    return f"{LAST - int(created_at * 1e6):016d}"


def _time(name: str) -> str:
    """The order in the name of an entry."""
    return name.partition("-")[0]


def _folder(certification: str) -> str:
    return f"certifications/{certification}"


def _owned(owner: str) -> str:
    return f"key-{owner}"  # the name of a key may be `..`


def _entry(owner: str, place: _Place, certification: str) -> str:
    return f"owners/{_owned(owner)}/{place.order}-{certification}.json"


def _sealed(name: str) -> str:
    return name.removesuffix(".json") + ".intoto.jsonl"


def _read(name: str) -> _Place | None:
    match = _OBJECT.fullmatch(name)
    return _Place(*match.groups()) if match else None
