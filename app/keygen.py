"""The key that signs certificates: made, rotated, revoked and published on the command line.

    python -m app keygen FILE                   makes the file; an existing one stays as it is
    python -m app keygen --name NAME FILE       the same, and NAME is who signs
    python -m app keygen --rotate FILE          signs with a new key; the old one vouches for what was finished before
    python -m app keygen --revoke FILE          signs with a new key; what the old one has signed is no longer believed
    python -m app keygen --revoke-retired KEYID FILE
                                                the same for a key that was retired before; the key that signs stays
    python -m app keygen --public PUBLIC FILE   writes the public keys; alone, it makes no key

The API processes read the file when they start.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from smoothcert.attestation.keyring import Keyring
from smoothcert.attestation.keys import PATH
from smoothcert.errors import AttestationError


class KeygenParser(ArgumentParser):
    """A parser whose refusals are errors of ours."""

    def error(self, message: str) -> NoReturn:
        raise AttestationError(f"{' '.join(self.format_usage().split())}; {message}")


def keygen(arguments: Sequence[str]) -> str:
    """Carry out the command; returns the sentence to be printed. AttestationError if that is impossible."""
    options = _parser().parse_args(arguments)
    if options.public is not None and options.public.resolve() == options.file.resolve():
        raise AttestationError(
            f"--public {options.public} is the keyring itself: name another file for the public keys"
        )
    ring = _ring(options)
    key = ring.public
    sentence = f"{options.file} signs for {key.name!r} with the key {key.keyid} (public key {key.public})"
    if options.public is None:
        return sentence
    _publish(ring, options.public)
    return f"{sentence}; {options.public} has the public keys"


def make_keyring(path: Path, name: str) -> Keyring:
    """Make a key, and the file that holds it; AttestationError if there is one already."""
    ring = Keyring.new(name, datetime.now(UTC))
    if path.exists():
        raise AttestationError(
            f"{path} exists already: --rotate or --revoke replaces its key, --public alone writes its public keys"
        )
    ring.write(path)
    return ring


def _parser() -> ArgumentParser:
    parser = KeygenParser(
        prog="python -m app keygen", description="Make the key that signs certificates.", allow_abbrev=False
    )
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--name", help="who signs; smoothcert if left out")
    change.add_argument(
        "--rotate", action="store_true", help="sign with a new key; the old one vouches for what was finished before"
    )
    change.add_argument(
        "--revoke", action="store_true", help="sign with a new key; what the old one signed is not believed any more"
    )
    change.add_argument(
        "--revoke-retired",
        metavar="KEYID",
        help="what this retired key signed is not believed any more; the key that signs stays",
    )
    parser.add_argument(
        "--public",
        type=Path,
        help=f"write the public keys into this file, as a service publishes them at {PATH}, for `smoothcert verify "
        "--key`; without other options, the keyring must be there and stays as it is",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the keyring, which is secret")
    return parser


def _ring(options: Namespace) -> Keyring:
    """The keyring after the change that the options name."""
    if options.rotate or options.revoke or options.revoke_retired is not None:
        ring = _changed(Keyring.read(options.file), options, datetime.now(UTC))
        ring.write(options.file)
        return ring
    if options.public is not None and options.name is None:
        return Keyring.read(options.file)
    return make_keyring(options.file, "smoothcert" if options.name is None else options.name)


def _changed(ring: Keyring, options: Namespace, now: datetime) -> Keyring:
    if options.revoke_retired is not None:
        return ring.with_revoked(options.revoke_retired, now)
    return ring.rotated(now, revoked=options.revoke)


def _publish(ring: Keyring, path: Path) -> None:
    try:
        path.write_text(ring.published.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise AttestationError(f"cannot write the public keys {path}: {error.strerror or error}") from error
