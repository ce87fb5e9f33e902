"""Certificates of real runs, and altered ones."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import numpy as np

from smoothcert.certificate import Certificate, EnsembleRecord, InputRecord, Provenance, SamplingRecord
from smoothcert.noise import Gaussian
from smoothcert.procedures import AnyProcedure, run


def certificate_of(
    procedure: AnyProcedure, p_a: float, seed: int = 0, radius: float = 0.25, **fields: Any
) -> Certificate:
    """The certificate of a real run on a classifier with this p_A; the radius is left out if there is no target."""
    rng = np.random.default_rng(seed)
    noise, alpha, beta = fields.pop("noise", Gaussian(0.25)), fields.pop("alpha", 0.001), 0.002
    target = radius if procedure.targeted else None
    rest = (1 - p_a) / 2
    procedure_run = procedure.start(noise, target, alpha=alpha, beta=beta)
    verdict = run(procedure_run, lambda n: rng.multinomial(n, [rest, p_a, rest * 0.9, rest * 0.1]))
    fields = {"class_name": "ship" if verdict.top_class == 1 else None, **fields}
    return Certificate.of(
        verdict, noise=noise, procedure=procedure, alpha=alpha, beta=beta, target_radius=target, **fields
    )


def provenance_of(shape: tuple[int, ...]) -> Provenance:
    """The provenance of a certificate of an image of this shape; nothing else in it is of interest."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Provenance(
        ensemble=EnsembleRecord(name="one", digest="", members=("",), voting="soft", consensus=None),
        input=InputRecord(sha256="", shape=shape),
        sampling=SamplingRecord(seed="", image=0, scheme=Gaussian.scheme, device="cpu", precision="float32", shapes=()),
        versions={},
        started_at=now,
        finished_at=now,
    )


def altered(certificate: Certificate, path: list[Any], value: Any, *, signed: bool) -> Certificate:
    """The certificate with one field changed, and with a new digest if it is signed."""
    fields = json.loads(certificate.to_json())
    place = fields
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    changed = Certificate.model_validate_json(json.dumps(fields))
    return changed.model_copy(update={"digest": changed.expected_digest()}) if signed else changed
