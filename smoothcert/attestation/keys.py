"""Public keys with their validity: what a service publishes, and what an auditor keeps beside the certificates."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, Field, StringConstraints, ValidationError, model_validator

from smoothcert.canonical import digest
from smoothcert.certificate import without_repetition
from smoothcert.errors import AttestationError, explain, unreadable
from smoothcert.frozen import Frozen

PATH = "/.well-known/smoothcert-keys.json"
"""The path at which a service publishes its keys."""
CLOCKS = timedelta(minutes=5)
"""How far the clocks of a service, its workers and a verifier may be apart."""

KEYRING = "a keyring, which is secret"
KINDS = {
    "smoothcert/certificate": "a certificate",
    "smoothcert/keyring": KEYRING,
    "payloadType": "an attestation",
    "certificates": "a certification",
    "run": "a ledger of certificates",
}
"""Our other kinds of files, by their format without its version, or by a field that no other kind has."""

Bytes32 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""32 bytes in lower-case hex."""
SignerName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class PublicKey(Frozen):
    """An Ed25519 key that signs or has signed attestations."""

    keyid: str
    """The sha256 by which a signature names the key; it follows from the key, as in TUF and in-toto."""
    algorithm: Literal["ed25519"] = "ed25519"
    public: Bytes32
    """The key itself, in hex."""
    name: SignerName
    """The signer. The person or service that hands out the key vouches for the name."""
    not_before: AwareDatetime
    not_after: AwareDatetime | None = None
    """When the key was retired: it does not sign certificates that were finished later. Null while it signs."""
    revoked_at: AwareDatetime | None = None
    """When the key was found to be in other hands. Since then nothing that it signed is believed, whatever the date:
    others can sign with it and state any date."""

    @classmethod
    def of(cls, public: str, **fields: object) -> PublicKey:
        """The key with the keyid that follows from it."""
        return cls.model_validate({"keyid": keyid(public), "public": public, **fields})

    @model_validator(mode="after")
    def _require_own_keyid(self) -> Self:
        if self.keyid != (expected := keyid(self.public)):
            raise ValueError(f"the keyid of this key is {expected}, got {self.keyid!r}")
        return self

    def objection(self, finished_at: datetime, now: datetime) -> str | None:
        """Why the key cannot vouch for what was finished at this time; None if it can.

        A key may sign what was finished before it was made: results are kept for a while, and fetched again.
        """
        if self.revoked_at is not None:
            return f"was revoked on {_date(self.revoked_at)}"
        if self.not_before - now > CLOCKS:  # a sum would overflow at the last date that there is
            return f"is not valid before {_date(self.not_before)}; the clock here says {_date(now)}"
        if self.not_after is not None and finished_at - self.not_after > CLOCKS:
            return f"expired on {_date(self.not_after)}, and this was finished on {_date(finished_at)}"
        if finished_at - now > CLOCKS:
            future = "which is in the future: the clock here says"
            return f"signed something that was finished on {_date(finished_at)}, {future} {_date(now)}"
        return None


class KeySet(Frozen):
    """Several keys, of which one signs: keys can be rotated."""

    format: Literal["smoothcert/keys/1"] = "smoothcert/keys/1"
    keys: Annotated[tuple[PublicKey, ...], Field(max_length=1000)]

    @model_validator(mode="after")
    def _require_each_once(self) -> Self:
        """Refuse a key that comes twice: one of both may be revoked."""
        keyids = [key.keyid for key in self.keys]
        if twice := next((each for each in keyids if keyids.count(each) > 1), None):
            raise ValueError(f"a key must come once, got {twice} {keyids.count(twice)} times")
        return self

    @classmethod
    def from_json(cls, text: str | bytes) -> KeySet:
        """Read keys; AttestationError says what is wrong with the text."""
        try:
            found = cls.model_validate_json(text)
            json.loads(text, object_pairs_hook=without_repetition)
            return found
        except ValidationError as error:
            if kind := _other_kind(text):
                raise AttestationError(
                    f"this is {kind}, not the public keys that a service publishes at {PATH}{_way(kind)}"
                ) from None
            detail = unreadable(text) or explain(error)
            raise AttestationError(f"not public keys as a service publishes them at {PATH}: {detail}") from error
        except ValueError as error:  # another reader may see the other value
            raise AttestationError(f"not public keys as a service publishes them at {PATH}: {error}") from error

    def find(self, keyid: str) -> PublicKey | None:
        return next((key for key in self.keys if key.keyid == keyid), None)


def keyid(public: str) -> str:
    """The keyid of an Ed25519 key, as securesystemslib computes it."""
    return digest({"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": public}})


def _other_kind(text: str | bytes) -> str | None:
    """What kind of file was given in place of public keys; None if it is not one of ours.

    A keyring has a name here so that it is never explained field by field: the sentence would quote its secret.
    """
    for part in (text, *text.splitlines()[:1]):  # the first of several lines tells what the others are
        with suppress(ValueError, RecursionError):
            fields = json.loads(part)
            if not isinstance(fields, dict):
                return None
            form, _, _ = str(fields.get("format")).rpartition("/")
            return next((kind for sign, kind in KINDS.items() if sign in fields or sign == form), None)
    return None


def _way(kind: str) -> str:
    """How public keys are made of such a file, as the end of a sentence."""
    return (
        "; `python -m app keygen --public FILE KEYRING` writes the public keys of a keyring" if kind == KEYRING else ""
    )


def _date(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")
