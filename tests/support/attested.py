"""Certificates with all records, and keyrings to sign them with."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from smoothcert.attestation.keyring import Keyring
from smoothcert.attestation.signing import sign
from smoothcert.attestation.statement import Statement
from smoothcert.certificate import (
    BOUND,
    Certificate,
    EnsembleRecord,
    InputRecord,
    PartRecord,
    Provenance,
    RemoteRecord,
    SamplingRecord,
    ShapeRecord,
)
from smoothcert.noise import Gaussian
from smoothcert.preparation import Preparation
from smoothcert.procedures import Adaptive, AnyProcedure
from smoothcert.question import FamilyWise
from smoothcert.resizing import Resize
from tests.support.certificates import certificate_of

FINISHED = datetime(2026, 3, 1, 12, tzinfo=UTC)
MADE = FINISHED - timedelta(days=30)
"""The time at which the key was made."""
LATER = FINISHED + timedelta(days=400)
"""The time at which the certificate is verified."""
MEMBERS = tuple(hashlib.sha256(each).hexdigest() for each in (b"first", b"second"))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def complete(
    seed: int = 0,
    procedure: AnyProcedure | None = None,
    *,
    index: int = 0,
    ensemble: str = "pair",
    drawn: str | None = None,
    **fields: Any,
) -> Certificate:
    """A consistent certificate with its provenance. Another seed gives other counts; `drawn` belongs to the noise."""
    bare = certificate_of(procedure or Adaptive(), 0.95, seed, **fields)
    provenance = Provenance(
        ensemble=EnsembleRecord(name=ensemble, digest=sha256(ensemble), members=MEMBERS, voting="soft", consensus=None),
        input=InputRecord(sha256=sha256(f"image {seed}"), shape=(3, 8, 8)),
        sampling=SamplingRecord(
            seed=drawn or sha256(f"seed {seed}")[:32],
            image=index,
            scheme=BOUND + Gaussian.scheme,
            device="cpu",
            precision="float32",
            shapes=(ShapeRecord(start=0, stop=bare.samples, rows=64),),
        ),
        versions={"torch": "2"},
        started_at=FINISHED - timedelta(seconds=1),
        finished_at=FINISHED,
    )
    more = {"provenance": provenance, "index": index, "evaluations": 2 * bare.samples}
    return resigned(bare.model_copy(update=more))


def with_every_record(certificate: Certificate) -> Certificate:
    """The certificate, still consistent, with all records that most certificates do not have."""
    assert certificate.provenance is not None
    assert certificate.alpha is not None
    ensemble, image, sampling = (getattr(certificate.provenance, name) for name in ("ensemble", "input", "sampling"))
    resize = Resize(fit="cover", sources=((640, 320),), by="Pillow 12")
    middle = certificate.samples // 2
    parts = tuple(
        PartRecord(start=start, stop=stop, stream=stream, device="cpu", precision="float32", versions={"torch": torch})
        for start, stop, stream, torch in ((0, middle, 0, "1"), (middle, certificate.samples, 1, "2"))
    )
    remote = RemoteRecord(member=1, model="m", version="1", platform="onnx", server="triton")
    prepared = Preparation(source=(1280, 640), box=(0, 0, 640, 320), by="a program")
    provenance = {
        "ensemble": ensemble.model_copy(update={"remote": (remote,)}),
        "input": image.model_copy(update={"resized": resize.record(0, (8, 8)), "prepared": prepared}),
        "sampling": sampling.model_copy(update={"nonce": "n", "parts": parts}),
    }
    shared = FamilyWise(alpha=2 * certificate.alpha, images=2)
    more = {"provenance": certificate.provenance.model_copy(update=provenance), "family_wise": shared}
    return resigned(certificate.model_copy(update=more))


def resigned(certificate: Certificate) -> Certificate:
    """The certificate with the digest of its current fields."""
    return certificate.model_copy(update={"digest": certificate.expected_digest()})


def keyring(name: str = "the tests", made: datetime = MADE) -> Keyring:
    return Keyring.new(name, made)


def sealed(certificate: Certificate, ring: Keyring) -> str:
    """The attestation of a certificate."""
    return sign(Statement.of(certificate), ring.signer)
