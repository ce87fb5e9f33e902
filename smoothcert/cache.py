"""A small store on disk for integers that take long to compute.

Every file carries a sha256 of its contents, and a damaged entry counts as missing. A store that cannot be written is
not an error: the values are computed again. The digest does not keep out a forger, so the folder must belong to the
user who runs the process and be closed to all others; another folder is not used. Nothing that a certificate claims may
rest on a stored value.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

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
    path = _path(key)
    try:
        if not _private(path.parent):
            return None
        entry = json.loads(path.read_bytes())
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
        if not _private(path.parent):
            return
        _forget_oldest(path.parent)
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
        try:
            partial.write_text(entry)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _private(store: Path) -> bool:
    """Whether the folder is there, belongs to this user, and is closed to all others; a link to one is not enough."""
    try:
        found = store.lstat()
    except FileNotFoundError:
        return False
    if not hasattr(os, "geteuid"):  # where files have no mode, the folder of a user is closed by other means
        return stat.S_ISDIR(found.st_mode)
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077:
        return True
    logger.warning(
        "the store of boundaries %s is not used: it must be a folder of your own that only you can enter (mode 0700)",
        store,
    )
    return False


def _forget_oldest(store: Path) -> None:
    """Make room for one more entry."""
    entries = sorted(store.iterdir(), key=lambda entry: entry.stat().st_mtime)
    for entry in entries[: max(0, len(entries) - MOST_ENTRIES + 1)]:
        entry.unlink(missing_ok=True)


def _path(key: str) -> Path:
    return folder() / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def _digest(key: str, value: Any) -> str:
    return hashlib.sha256(json.dumps([key, value]).encode()).hexdigest()
