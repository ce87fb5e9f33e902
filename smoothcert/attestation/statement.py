"""What is signed: an in-toto Statement v1 (https://in-toto.io/Statement/v1).

Its subjects are the sha256 of the input and of each member of the ensemble; its predicate is the certificate itself, or
the record of a replay.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, ConfigDict, Field, ValidationError

from smoothcert.canonical import canonical_json
from smoothcert.certificate import Certificate, Provenance, without_repetition
from smoothcert.errors import AttestationError, explain, fault, shown
from smoothcert.frozen import Frozen

CERTIFICATE = "urn:smoothcert:predicate:certificate"
"""The predicate type of a statement whose predicate is a certificate."""
REPLAY = "urn:smoothcert:predicate:replay"
"""The predicate type of a statement whose predicate is a ReplayRecord."""


class Subject(Frozen):
    """Something that the statement is about, by its sha256."""

    name: str
    digest: dict[Literal["sha256"], str]


class Statement(Frozen):
    """A claim about its subjects, without a signature."""

    model_config = ConfigDict(populate_by_name=True)

    type: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")] = (
        "https://in-toto.io/Statement/v1"
    )
    subject: tuple[Subject, ...]
    predicate_type: Annotated[str, Field(alias="predicateType")]
    predicate: dict[str, Any]

    @classmethod
    def of(cls, certificate: Certificate) -> Statement:
        """The statement that a certificate is signed in; AttestationError if it does not say what it is about."""
        subject = subjects(certificate)
        return cls(subject=subject, predicate_type=CERTIFICATE, predicate=certificate.model_dump(mode="json"))

    @classmethod
    def of_replay(cls, certificate: Certificate, record: ReplayRecord) -> Statement:
        """The statement that somebody has repeated the certificate."""
        return cls(subject=subjects(certificate), predicate_type=REPLAY, predicate=record.model_dump(mode="json"))

    @classmethod
    def from_payload(cls, payload: bytes) -> Statement:
        """Read what an envelope holds; AttestationError if it is not a statement in canonical JSON."""
        try:
            text = payload.decode()
            written = json.loads(text, object_pairs_hook=without_repetition)
            if canonical_json(written) != text:
                raise AttestationError("the statement is not written in canonical JSON (RFC 8785)")
            return cls.model_validate(written)
        except ValidationError as error:
            raise AttestationError(f"not an in-toto statement: {explain(error, whole='the statement')}") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise AttestationError(f"not an in-toto statement: {fault(error)}") from error

    @property
    def payload(self) -> bytes:
        """The bytes to be signed: canonical JSON."""
        return canonical_json(self.model_dump(mode="json", by_alias=True)).encode()

    def certificate(self) -> Certificate:
        """The certificate in the statement; AttestationError if there is none, or if it is not about the subjects."""
        if self.predicate_type != CERTIFICATE:
            raise AttestationError(f"the statement is of type {shown(self.predicate_type)}, wanted {CERTIFICATE!r}")
        certificate = Certificate.from_json(json.dumps(self.predicate))
        if self.subject != subjects(certificate):
            raise AttestationError("the subjects of the statement are not the input and the members of its certificate")
        return certificate

    def replay(self) -> ReplayRecord:
        """The record of a replay in the statement; AttestationError if there is none."""
        try:
            return ReplayRecord.model_validate(self.predicate)
        except ValidationError as error:
            raise AttestationError(f"not the record of a replay: {explain(error, whole='the predicate')}") from error


class ReplayRecord(Frozen):
    """Somebody has drawn the samples of a certificate again: with what outcome, by whom, on what."""

    certificate: str
    """The digest of the certificate that was repeated."""
    reproduced: bool
    """Whether every count of every stage came out again."""
    differences: tuple[str, ...]
    remarks: tuple[str, ...]
    """What was different when the certificate was made, such as the version of torch."""
    by: str
    on: dict[str, str]
    """The machine: device, precision, platform and versions."""
    replayed_at: AwareDatetime


def subjects(certificate: Certificate) -> tuple[Subject, ...]:
    """What a certificate is about: its input, and the members of the ensemble in their order."""
    provenance = _provenance(certificate)
    members = provenance.ensemble.members
    return (
        Subject(name="input", digest={"sha256": provenance.input.sha256}),
        *(Subject(name=f"members/{i}", digest={"sha256": sha256}) for i, sha256 in enumerate(members)),
    )


def finished_at(certificate: Certificate) -> datetime:
    return _provenance(certificate).finished_at


def _provenance(certificate: Certificate) -> Provenance:
    if certificate.provenance is None:
        raise AttestationError(
            "a certificate can only be signed with its input and its members, and this one names none (provenance is "
            "null)"
        )
    return certificate.provenance
