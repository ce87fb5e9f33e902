"""The zip archives in which torch keeps programs."""

from __future__ import annotations

import io
import re
import zipfile

from models.errors import ProgramError

MOST_EXPANSION = 64 * 2**20
"""The bytes that the entries of an archive may have together beyond those of the file: source code is compressed."""


def names(data: bytes) -> list[str]:
    """The names in an archive's table of contents; none for a file that is not an archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.namelist()
    except Exception:  # zipfile raises many kinds for a file that is not an archive
        return []


def read(data: bytes, *, kept: re.Pattern[str], dropped: re.Pattern[str]) -> dict[str, bytes]:
    """The entries to be kept, without the folder that they share; ProgramError for an entry that is in neither list."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(info.file_size for info in archive.infolist()) > len(data) + MOST_EXPANSION:
            raise ProgramError(f"the archive grows by more than {MOST_EXPANSION} bytes when it is unpacked")
        found = {info.filename.partition("/")[2]: info for info in archive.infolist()}
        strange = sorted(name for name in found if not kept.fullmatch(name) and not dropped.fullmatch(name))
        if strange:
            raise ProgramError(
                f"the archive has entries that are not allowed: {', '.join(strange)}; only the weights and the "
                f"code of one network are accepted"
            )
        return {name: archive.read(info) for name, info in found.items() if kept.fullmatch(name)}


def write(entries: dict[str, bytes]) -> bytes:
    """A new archive of these entries.

    Torch's zip reader may understand a manipulated table of contents in another way than Python's. It therefore reads
    a new archive that consists of exactly the bytes that were vetted.
    """
    rewritten = io.BytesIO()
    with zipfile.ZipFile(rewritten, "w", zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            archive.writestr(f"program/{name}", content)
    return rewritten.getvalue()
