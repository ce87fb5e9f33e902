"""The key that signs certificates: made, rotated and revoked on the command line.

    python -m app keygen FILE               makes the file; one that is there stays as it is
    python -m app keygen --name NAME FILE   the same, and NAME is who signs
    python -m app keygen --rotate FILE      signs with a new key; the old one vouches for what was finished before
    python -m app keygen --revoke FILE      signs with a new key; what the old one has signed is no longer believed

The API processes read the file when they start.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from smoothcert.attestation.keyring import Keyring
from smoothcert.errors import AttestationError, shown

USAGE = "usage: python -m app keygen [--name NAME | --rotate | --revoke] FILE"


def keygen(path: Path, options: Sequence[str]) -> str:
    """Make or replace the key in a file; returns the sentence to be printed. AttestationError if that is impossible."""
    now = datetime.now(UTC)
    match options:
        case []:
            ring = _first(path, Keyring.new("smoothcert", now))
        case ["--name", name]:
            ring = _first(path, Keyring.new(name, now))
        case ["--rotate"]:
            ring = Keyring.read(path).rotated(now)
        case ["--revoke"]:
            ring = Keyring.read(path).rotated(now, revoked=True)
        case _:
            raise AttestationError(f"{USAGE}; got {shown(' '.join(options))}")
    ring.write(path)
    key = ring.public
    return f"{path} signs for {key.name!r} with the key {key.keyid} (public key {key.public})"


def _first(path: Path, ring: Keyring) -> Keyring:
    if path.exists():
        raise AttestationError(f"{path} is there already: --rotate or --revoke replaces its key")
    return ring
