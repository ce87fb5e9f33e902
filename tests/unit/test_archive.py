"""The archive on both kinds of storage, and lists of what Redis and the archive hold."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.archive.archive import Archive, ArchiveEntry, DamagedError, EntryPage
from app.archive.reader import merged
from app.archive.storage import Bucket, Folder, Storage, StorageError
from app.redis.cursor import Cursor
from app.settings import ApiSettings
from store.record import Record
from tests.support.bucket import NAME, Moto

TEXT = '{"id": "x", "certificates": []}'


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    with Moto() as running:
        yield running


@pytest.fixture(params=["folder", "bucket"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "folder":
        return Folder(tmp_path / "archive")
    endpoint = request.getfixturevalue("moto").endpoint
    prefix = hashlib.sha256(str(tmp_path).encode()).hexdigest()[:8]
    return bucket(endpoint, f"s3://{NAME}/{prefix}")


def bucket(endpoint: str, url: str) -> Bucket:
    return Bucket.at(url, endpoint=endpoint, region="us-east-1", credentials=("test", "test"))


def record(number: int, *, owner: str = "ann", created_at: float = 1_794_820_400.25) -> Record:
    fields: dict[str, Any] = dict.fromkeys(("pool", "queue", "ensemble", "digest", "request", "seed"), "")
    return Record(
        id=f"cert_{number:032x}",
        owner=owner,
        status="succeeded",
        images=1,
        created_at=created_at + number,
        expires_at=0.0,
        archive=1,
        **fields,
    )


def write(archive: Archive, each: Record, text: str = TEXT) -> None:
    summary = json.dumps({"id": each.id, "status": each.status})
    archive.write(each, text, summary, "{}\n")


def test_names_come_in_order_and_after_a_text(storage: Storage) -> None:
    for name in ("b", "a", "c"):
        storage.write(f"some/{name}", name.encode())
    assert storage.names("some") == ["a", "b", "c"]
    assert storage.names("some", after="a", most=1) == ["b"]
    assert storage.names("none") == []
    assert (storage.read("some/a"), storage.read("some/d")) == (b"a", None)
    storage.remove("some/a")
    storage.remove("some/a")
    assert storage.read("some/a") is None


def test_writing_twice_keeps_one(storage: Storage) -> None:
    archive, one = Archive(storage), record(1)
    for _ in range(2):
        write(archive, one)
    write(archive, one, '{"id": "x", "certificates": [], "new": 1}')  # another version says the same in other words
    assert len(storage.names(f"certifications/{one.id}")) == 2, "the certification and its attestations"
    assert len(storage.names("owners/key-ann")) == 1
    kept = archive.find(one.id, owner="ann")
    assert kept is not None
    assert json.loads(kept.text)["new"] == 1


def test_owners_see_their_own_and_nothing_incomplete(storage: Storage) -> None:
    archive, one = Archive(storage), record(1)
    write(archive, one)
    assert archive.find(one.id, owner="bob") is None
    for name in ("../../etc/passwd", "cert_x", "", "."):
        assert archive.find(name, owner="ann") is None
    (entry,) = storage.names("owners/key-ann")
    storage.remove(f"owners/key-ann/{entry}")
    assert archive.find(one.id, owner="ann") is None


def test_an_owner_with_dots_for_a_name_stays_inside(storage: Storage) -> None:
    archive, one = Archive(storage), record(1, owner="..")
    write(archive, one)
    assert archive.find(one.id, owner="..") is not None
    assert len(archive.page("..", status=None, limit=5, after=None).entries) == 1


def test_a_truncated_object_is_a_sentence(storage: Storage) -> None:
    archive, one = Archive(storage), record(1)
    write(archive, one)
    (name, _) = sorted(storage.names(f"certifications/{one.id}"), key=len)
    storage.write(f"certifications/{one.id}/{name}", TEXT.encode()[:-1])
    with pytest.raises(DamagedError, match=f"{one.id} is damaged in the archive: its object has {len(TEXT) - 1} bytes"):
        archive.find(one.id, owner="ann")
    archive.erase(one.id, owner="ann")
    assert archive.find(one.id, owner="ann") is None


def test_erasing_leaves_nothing(storage: Storage) -> None:
    archive, one, other = Archive(storage), record(1), record(2)
    write(archive, one)
    write(archive, other)
    for _ in range(2):
        archive.erase(one.id, owner="ann")
    assert storage.names(f"certifications/{one.id}") == []
    assert [each.cursor.certification for each in archive.page("ann", status=None, limit=9, after=None).entries] == [
        other.id
    ]


def listed(archive: Archive, limit: int) -> list[str]:
    """The ids of all pages, as a client gets them."""
    seen, after = list[str](), None
    for _ in range(99):
        page = archive.page("ann", status=None, limit=limit, after=after)
        found, after = merged([], None, page, set(), limit=limit)
        seen += [json.loads(each)["id"] for each in found]
        if after is None:
            break
    return seen


def test_pages_follow_each_other(storage: Storage) -> None:
    archive = Archive(storage)
    for number in range(7):
        write(archive, record(number))
    assert listed(archive, 3) == [record(number).id for number in reversed(range(7))]
    assert archive.page("ann", status="failed", limit=3, after=None).entries == []


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_what_was_created_in_the_same_microsecond_is_listed_once(storage: Storage, limit: int) -> None:
    archive = Archive(storage)
    moments = [1_794_820_400.25, *[1_794_820_399.5] * 4, 1_794_820_398.0]
    for number, moment in enumerate(moments):
        write(archive, record(number, created_at=moment - number))
    assert listed(archive, limit) == [record(number).id for number in (0, 4, 3, 2, 1, 5)]


@pytest.mark.parametrize(
    "damaged",
    [
        '{"created_at": 1, "summ',
        "null",
        '{"created_at": MOMENT, "summary": {"id": "ID"}}',
        '{"created_at": NaN, "summary": {"id": "ID", "status": "succeeded"}}',
        '{"created_at": 1e999, "summary": {"id": "ID", "status": "succeeded"}}',
        '{"created_at": 1, "summary": {"id": "ID", "status": "succeeded"}}',
        '{"created_at": MOMENT, "summary": {"id": "another", "status": "succeeded"}}',
    ],
)
def test_a_damaged_entry_is_left_out_of_lists(tmp_path: Path, damaged: str) -> None:
    storage = Folder(tmp_path / "archive")
    archive = Archive(storage)
    for number in (1, 2):
        write(archive, record(number))
    name, newest = storage.names("owners/key-ann")[0], record(2)
    text = damaged.replace("MOMENT", str(newest.created_at)).replace("ID", newest.id)
    storage.write(f"owners/key-ann/{name}", text.encode())
    (left,) = archive.page("ann", status="succeeded", limit=9, after=None).entries
    assert left.cursor.certification == record(1).id


def test_entries_behind_damaged_ones_are_listed(storage: Storage) -> None:
    archive = Archive(storage)
    for number in range(6):
        write(archive, record(number))
    for name in storage.names("owners/key-ann")[1:5]:
        storage.write(f"owners/key-ann/{name}", b"")
    assert listed(archive, 1) == [record(5).id, record(0).id]


def test_a_folder_that_is_a_file_and_a_store_that_is_away_are_sentences(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"the archive .*file cannot be used"):
        Folder(tmp_path / "file")
    away = bucket("http://127.0.0.1:9", f"s3://{NAME}/x")
    for call in (lambda: away.write("a", b""), lambda: away.read("a"), lambda: away.names("a")):
        with pytest.raises(StorageError, match="a cannot be"):
            call()


@pytest.mark.parametrize(
    "call",
    [
        lambda archive: write(archive, record(1)),
        lambda archive: archive.find(record(1).id, owner="ann"),
        lambda archive: archive.page("ann", status=None, limit=1, after=None),
        lambda archive: archive.erase(record(1).id, owner="ann"),
    ],
)
def test_an_empty_place_is_not_an_empty_archive(tmp_path: Path, moto: Moto, call: Callable[[Archive], Any]) -> None:
    """A volume that is not mounted, and a bucket that is gone. Mutant killed: what is not found counts as erased."""
    unmounted = Archive(Folder(tmp_path / "archive"))
    (tmp_path / "archive" / "incoming").rmdir()
    with pytest.raises(StorageError, match=r"is not there: its volume may not be mounted"):
        call(unmounted)
    assert [*(tmp_path / "archive").iterdir()] == []
    with pytest.raises(StorageError, match="cannot be listed"):
        call(Archive(bucket(moto.endpoint, "s3://gone/x")))


def test_what_a_dead_process_left_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    Folder(folder)
    for name in ("old", "new"):
        (folder / "incoming" / name).write_text("half")
    os.utime(folder / "incoming" / "old", (0, 0))
    Folder(folder)
    assert [each.name for each in (folder / "incoming").iterdir()] == ["new"]


def test_a_file_that_another_process_moves_away_is_no_reason_not_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Folder(tmp_path)
    gone = tmp_path / "incoming" / "gone"
    monkeypatch.setattr(Path, "iterdir", lambda _: iter([gone]))
    Folder(tmp_path)


@pytest.mark.parametrize("place", ["archive", "s3://", "s3:///prefix"])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match=r"must be an absolute path or s3://BUCKET/PREFIX"):
        ApiSettings(archive=place)


def entry(number: int) -> ArchiveEntry:
    return ArchiveEntry(Cursor(float(number // 2), f"cert_{number}"), str(number))


@given(st.lists(st.sampled_from("ra "), max_size=30), st.sets(st.integers(0, 29)), st.integers(1, 6))
def test_a_list_of_two_has_everything_once_and_in_order(places: list[str], gone: set[int], limit: int) -> None:
    """`r` is in Redis alone, `a` in the archive alone, a space in both; the answer is computed again by sorting all."""
    redis = sorted((entry(i) for i, place in enumerate(places) if place in "r "), key=lambda each: each.cursor)[::-1]
    kept = sorted((entry(i) for i, place in enumerate(places) if place in "a "), key=lambda each: each.cursor)[::-1]
    gone_ids = {f"cert_{number}" for number in gone if number < len(places) and places[number] == "a"}
    seen: list[str] = []
    after: Cursor | None = None
    while True:
        first, second = ([each for each in some if after is None or each.cursor < after] for some in (redis, kept))
        following = first[limit - 1].cursor if len(first) > limit else None
        page = EntryPage(second[: limit + 1], second[limit].cursor if len(second) > limit else None)
        found, after = merged(first[:limit], following, page, gone_ids, limit=limit)
        assert len(found) <= limit
        seen += found
        if after is None:
            break
    everything = {each.cursor: each.summary for each in (*redis, *kept) if each.cursor.certification not in gone_ids}
    assert seen == [everything[cursor] for cursor in sorted(everything, reverse=True)]
