"""Signing and checking of envelopes. The cryptography is that of securesystemslib and `cryptography`."""

from __future__ import annotations

from smoothcert.attestation.envelope import MEDIA_TYPE, Attestation
from smoothcert.attestation.keys import PublicKey
from smoothcert.attestation.statement import Statement
from smoothcert.canonical import canonical_json
from smoothcert.extras import needed_by

with needed_by("a signature"):
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import Signature, Signer, SSlibKey


def sign(statement: Statement, signer: Signer) -> str:
    """The envelope of the statement, as a text."""
    envelope = Envelope(statement.payload, MEDIA_TYPE, {})
    envelope.sign(signer)
    return canonical_json(envelope.to_dict())


def is_signed_by(attestation: Attestation, key: PublicKey) -> bool:
    """Whether the signature is that of the key, over exactly this payload."""
    signature = Signature(attestation.keyid, attestation.signature.hex())
    envelope = Envelope(attestation.payload, MEDIA_TYPE, {attestation.keyid: signature})
    verifier = SSlibKey(key.keyid, "ed25519", "ed25519", {"public": key.public})
    try:
        return bool(envelope.verify([verifier], 1))
    except VerificationError:
        return False
