"""A small store on disk for integers that take long to compute.

Every file carries a sha256 of its contents, and a damaged entry counts as missing. A store that cannot be written is
not an error: the values are computed again. Its contents are trusted, so only the user who runs the process may be able
to write it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

MOST_ENTRIES = 2_000
"""The number of files that are kept; each takes a few kilobytes."""


def folder() -> Path:
    """SMOOTHCERT_CACHE, or `smoothcert` in the user's cache folder."""
    named = os.environ.get("SMOOTHCERT_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smoothcert"


def load(key: str) -> Any:
    """The value that was saved under this key, or None."""
    try:
        entry = json.loads(_path(key).read_bytes())
        if entry["key"] == key and entry["sha256"] == _digest(key, entry["value"]):
            return entry["value"]
    except (OSError, ValueError, TypeError, KeyError, RuntimeError):
        pass
    return None


def save(key: str, value: Any) -> None:
    """Keep a JSON value under this key. The file appears as a whole or not at all; failures are ignored."""
    path = _path(key)
    entry = json.dumps({"key": key, "sha256": _digest(key, value), "value": value})
    with suppress(OSError, RuntimeError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _forget_oldest(path.parent)
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
        try:
            partial.write_text(entry)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _forget_oldest(store: Path) -> None:
    """Make room for one more entry."""
    entries = sorted(store.iterdir(), key=lambda entry: entry.stat().st_mtime)
    for entry in entries[: max(0, len(entries) - MOST_ENTRIES + 1)]:
        entry.unlink(missing_ok=True)


def _path(key: str) -> Path:
    return folder() / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def _digest(key: str, value: Any) -> str:
    return hashlib.sha256(json.dumps([key, value]).encode()).hexdigest()
