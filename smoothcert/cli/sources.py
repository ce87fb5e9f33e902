"""Where certificates come from: a file, the folder of an evaluation, a folder of files, or a service, by their id."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from smoothcert.cli.evaluate import CERTIFICATES, IMAGES
from smoothcert.cli.options import connected
from smoothcert.errors import CertificateError

if TYPE_CHECKING:
    from smoothcert.attestation.keys import KeySet
    from smoothcert.collection import Collection

SUFFIXES = (".json", ".jsonl")
"""The files of a folder that may hold certificates."""
ID = re.compile(r"[A-Za-z0-9_-]{8,64}")


def collected(source: str, keys: KeySet | None, url: str | None, api_key: str | None) -> Collection:
    """The certificates of a file, a folder or a certification, examined; CertificateError says what is wrong."""
    from smoothcert.collection import collect

    path = Path(source)
    if path.is_dir():
        return _of_folder(path, keys)
    if path.exists():
        return collect([(path.name, _read(path))], keys, name=path.stem)
    if not ID.fullmatch(source):
        raise CertificateError(f"{source}: there is no such file or folder, and it is not the id of a certification")
    from smoothcert.client.errors import UnknownCertificationError

    with connected(url, api_key) as client:
        try:
            if keys is None:
                text = client.certifications.get(source).model_dump_json()
            else:
                text = "\n".join(client.certifications.attestations(source))
        except UnknownCertificationError as error:
            raise CertificateError(f"{source}: there is no such file or folder, and {error.detail}") from error
    return collect([(source, text.encode())], keys, name=source)


def _of_folder(folder: Path, keys: KeySet | None) -> Collection:
    from smoothcert.collection import collect

    name = folder.resolve().name
    if (ledger := folder / CERTIFICATES).is_file():
        found = collect([(ledger.name, _read(ledger))], keys, name=name)
        return _labelled(found, folder / IMAGES) if (folder / IMAGES).is_file() else found
    files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    if not files:
        accepted = f"a ledger {CERTIFICATES}, or files that end in {' or '.join(SUFFIXES)}"
        raise CertificateError(f"{folder} has no certificates: it must have {accepted}")
    return collect(((path.name, _read(path)) for path in files), keys, name=name)


def _labelled(found: Collection, table: Path) -> Collection:
    """The collection with the names and labels that `smoothcert evaluate` wrote beside it."""
    rows = [*_rows(table)]
    if len(rows) != len(found.found):
        raise CertificateError(
            f"{table} has {len(rows):,} images, and the ledger beside it {len(found.found):,} certificates: run "
            f"the same smoothcert evaluate again, or remove {table.name}"
        )
    return labelled(found, *zip(*rows, strict=True))


def _rows(table: Path) -> Iterator[tuple[str, int | None]]:
    with suppress(ValueError, KeyError, csv.Error), table.open(newline="", encoding="utf-8", errors="replace") as file:
        for row in csv.DictReader(file):
            yield row["image"], int(row["label"]) if row["label"] else None


def labelled(found: Collection, names: Sequence[str], labels: Sequence[int | None]) -> Collection:
    """The collection with other names and labels of its images."""
    items = [
        replace(each, entry=replace(each.entry, beside={**each.entry.beside, "name": name, "label": label}))
        for each, name, label in zip(found.found, names, labels, strict=True)
    ]
    return replace(found, found=items)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror or error}") from error
