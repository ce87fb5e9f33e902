"""A keyring keeps its secret, and public keys are what they say."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from smoothcert.attestation.keyring import Keyring
from smoothcert.attestation.keys import KeySet, PublicKey
from smoothcert.errors import AttestationError
from tests.support.attested import FINISHED, LATER, keyring

RING = keyring()


def test_a_key_that_comes_twice_is_refused() -> None:
    """Mutant killed: the first of both counts, and the second says that it was revoked."""
    valid, revoked = (ring.published.model_dump(mode="json") for ring in (RING, RING.rotated(LATER, revoked=True)))
    both = {**valid, "keys": [*valid["keys"], *revoked["keys"]]}
    with pytest.raises(AttestationError, match=f"a key must come once, got {RING.public.keyid} 2 times"):
        KeySet.from_json(json.dumps(both))


def test_a_field_that_comes_twice_is_refused() -> None:
    """Mutant killed: the last of both counts, and the first says that the key was revoked."""
    text = RING.published.model_dump_json()
    both = text.replace('"revoked_at":null', f'"revoked_at":"{LATER.isoformat()}","revoked_at":null')
    assert both != text
    for each in (both, both.encode()):
        with pytest.raises(AttestationError, match="the key 'revoked_at' comes twice"):
            KeySet.from_json(each)


def test_a_keyring_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    RING.write(tmp_path / "ring")
    assert stat.S_IMODE((tmp_path / "ring").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["ring"]
    assert Keyring.read(tmp_path / "ring") == RING
    assert RING.private not in repr(RING)


def test_a_keyring_that_cannot_be_read_is_not_quoted(tmp_path: Path) -> None:
    file = tmp_path / "ring"
    file.write_text(RING.model_dump_json().replace(RING.private, RING.private + "00"))
    with pytest.raises(AttestationError, match="is not a keyring: private cannot be read") as error:
        Keyring.read(file)
    assert RING.private not in str(error.value)
    with pytest.raises(AttestationError, match="cannot be read: No such file"):
        Keyring.read(tmp_path / "missing")


def test_published_keys_are_those_of_the_keyring_without_the_secret() -> None:
    rotated = RING.rotated(FINISHED).rotated(LATER, revoked=True)
    text = rotated.published.model_dump_json()
    assert KeySet.from_json(text) == rotated.published
    assert rotated.private not in text
    signing, first, second = rotated.published.keys
    assert signing.not_after is None
    assert (first.not_after, first.revoked_at) == (FINISHED, None)
    assert second.revoked_at == LATER


def test_a_keyring_in_the_place_of_public_keys_is_not_quoted() -> None:
    with pytest.raises(AttestationError, match="this is a keyring, which is secret, not the public keys") as error:
        KeySet.from_json(RING.model_dump_json())
    assert RING.private[:8] not in str(error.value)
    assert "`python -m app keygen --public FILE KEYRING` writes the public keys" in str(error.value)


def test_a_key_under_another_keyid_is_refused() -> None:
    key = RING.public
    with pytest.raises(ValueError, match="the keyid of this key is"):
        PublicKey.model_validate({**key.model_dump(), "keyid": "0" * 64})
