"""A DSSE envelope as a text: written in one way, and read in no other.

The signature covers the payload and its type. The text around them must be canonical JSON with strict base64, so that
no byte of a file can be changed without notice.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from smoothcert.attestation.statement import Statement
from smoothcert.canonical import canonical_json
from smoothcert.certificate import without_repetition
from smoothcert.errors import AttestationError, fault, shown

MEDIA_TYPE = "application/vnd.in-toto+json"
"""The type of the payload, by which an attestation is also asked for over HTTP."""
FIELDS = {"payload", "payloadType", "signatures"}
SIGNATURE = {"keyid", "sig"}
SIGNATURE_BYTES = 64


@dataclass(frozen=True)
class Attestation:
    """An envelope that was read; whether its signature is right is not known yet."""

    text: str
    keyid: str
    """The key that the signature names."""
    signature: bytes
    payload: bytes
    statement: Statement

    @classmethod
    def read(cls, text: str | bytes) -> Attestation:
        """Read an envelope; AttestationError says what is wrong with it."""
        text = _decoded(text).removesuffix("\n")
        fields = _fields(text)
        keyid, signature = _signature(fields["signatures"])
        payload = _bytes("payload", fields["payload"])
        return cls(text, keyid, signature, payload, Statement.from_payload(payload))


def is_envelope(value: object) -> bool:
    """Whether a JSON value is meant to be an envelope."""
    return isinstance(value, dict) and "payloadType" in value


def _decoded(text: str | bytes) -> str:
    try:
        return text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError as error:
        raise AttestationError(f"the envelope cannot be read: {fault(error)}") from error


def _fields(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text, object_pairs_hook=without_repetition)
        canonical = canonical_json(fields)
    except (ValueError, TypeError, RecursionError) as error:
        raise AttestationError(f"the envelope cannot be read: {fault(error)}; the file may be incomplete") from error
    if not isinstance(fields, dict) or fields.keys() != FIELDS:
        seen = sorted(fields) if isinstance(fields, dict) else fields
        raise AttestationError(f"an envelope has the fields {', '.join(sorted(FIELDS))}; got {shown(seen)}")
    if fields["payloadType"] != MEDIA_TYPE:
        raise AttestationError(f"the envelope is of type {shown(fields['payloadType'])}, wanted {MEDIA_TYPE!r}")
    if canonical != text:
        raise AttestationError("the envelope is not written in canonical JSON (RFC 8785), so the file was altered")
    return fields


def _signature(signatures: object) -> tuple[str, bytes]:
    match signatures:
        case [dict({"keyid": str(keyid), "sig": sig}) as only] if only.keys() == SIGNATURE:
            signature = _bytes("signature", sig)
            if len(signature) != SIGNATURE_BYTES:
                raise AttestationError(f"the signature has {len(signature)} bytes, wanted {SIGNATURE_BYTES}")
            return keyid, signature
    raise AttestationError(f"an envelope has one signature with a keyid and a sig; got {shown(signatures)}")


def _bytes(what: str, text: object) -> bytes:
    """What a base64 text stands for; a second text for the same bytes is refused."""
    try:
        decoded = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        decoded = b""
    if not decoded or base64.b64encode(decoded).decode() != text:
        raise AttestationError(f"the {what} of the envelope must be base64, got {shown(text)}")
    return decoded
