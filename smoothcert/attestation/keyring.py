"""The secret of a signer: its private key, and the public keys that it has retired. One file holds all of it."""

from __future__ import annotations

import os
import secrets
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, ValidationError

from smoothcert.attestation.keys import Bytes32, KeySet, PublicKey, SignerName
from smoothcert.errors import AttestationError, explain
from smoothcert.extras import needed_by
from smoothcert.frozen import Frozen

with needed_by("signing"):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from securesystemslib.signer import CryptoSigner


SHORTEST_KEYID = 8
"""The fewest characters that name a key; sentences about a file show 16."""


class Keyring(Frozen):
    """One key that signs, and those that have signed before it."""

    format: Literal["smoothcert/keyring/1"] = "smoothcert/keyring/1"
    name: SignerName = "smoothcert"
    """Who signs."""
    private: Annotated[Bytes32, Field(repr=False)]
    """The private key of Ed25519 (RFC 8032): 32 random bytes, in hex."""
    not_before: AwareDatetime
    """When the key was made."""
    retired: tuple[PublicKey, ...] = ()

    @classmethod
    def new(cls, name: str, now: datetime) -> Keyring:
        try:
            return cls(name=name, private=secrets.token_hex(32), not_before=now)
        except ValidationError as error:
            raise AttestationError(explain(error)) from error

    @classmethod
    def read(cls, path: Path) -> Keyring:
        """The keyring in a file; AttestationError says what is wrong, and never quotes the file."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise AttestationError(f"the keyring {path} cannot be read: {error.strerror or error}") from error
        except ValidationError as error:
            places = ", ".join(".".join(map(str, each["loc"])) or "the text" for each in error.errors())
            raise AttestationError(
                f"{path} is not a keyring: {places} cannot be read; `python -m app keygen FILE` makes one"
            ) from None

    def rotated(self, now: datetime, *, revoked: bool = False) -> Keyring:
        """A keyring that signs with a new key and still publishes the old one, as retired or as revoked."""
        old = self.public.model_copy(update={"not_after": now, "revoked_at": now if revoked else None})
        return self.new(self.name, now).model_copy(update={"retired": (*self.retired, old)})

    def with_revoked(self, keyid: str, now: datetime) -> Keyring:
        """A keyring that publishes a retired key as revoked; the key is named by its keyid, or by the beginning of it.

        AttestationError if it is not one of the retired keys.
        """
        named = [key for key in self.published.keys if key.keyid.startswith(keyid) and len(keyid) >= SHORTEST_KEYID]
        if named == [self.public]:
            raise AttestationError(f"{keyid} is the key that signs: --revoke replaces it")
        if len(named) != 1:
            known = ", ".join(key.keyid for key in self.retired) or "none"
            raise AttestationError(
                f"{keyid!r} must be the keyid of a retired key, or at least its first {SHORTEST_KEYID} characters; "
                f"there are: {known}"
            )
        (old,) = named
        revoked = old.model_copy(update={"revoked_at": old.revoked_at or now})
        return self.model_copy(update={"retired": tuple(revoked if key == old else key for key in self.retired)})

    def write(self, path: Path) -> None:
        """Write the file as a whole or not at all. A new file is readable by its owner alone; an existing one keeps its
        mode."""
        fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(self.model_dump_json(indent=2) + "\n")
                file.flush()
                os.fsync(file.fileno())  # a loss of power must not leave an empty file in the place of the key
            if path.exists():
                fresh.chmod(path.stat().st_mode)
            fresh.replace(path)
        except OSError as error:
            raise AttestationError(f"cannot write the keyring {path}: {error.strerror or error}") from error
        finally:
            fresh.unlink(missing_ok=True)

    @property
    def signer(self) -> CryptoSigner:
        return CryptoSigner(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(self.private)))

    @property
    def public(self) -> PublicKey:
        """The key that signs."""
        value = self.signer.public_key.keyval["public"]
        return PublicKey.of(value, name=self.name, not_before=self.not_before)

    @property
    def published(self) -> KeySet:
        """All public keys, the one that signs first."""
        return KeySet(keys=(self.public, *self.retired))
