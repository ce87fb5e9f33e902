"""Certificates of real runs, and what somebody made of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from smoothcert.certificate import Certificate
from smoothcert.noise import Gaussian
from smoothcert.procedures import AnyProcedure, run


def certificate_of(
    procedure: AnyProcedure, p_a: float, seed: int = 0, radius: float = 0.25, **said: Any
) -> Certificate:
    """A real run on a classifier with this p_A."""
    rng = np.random.default_rng(seed)
    noise, alpha, beta = Gaussian(0.25), said.pop("alpha", 0.001), 0.002
    target = None if procedure.name == "fixed" else radius
    rest = (1 - p_a) / 2
    procedure_run = procedure.start(noise, target, alpha=alpha, beta=beta)
    verdict = run(procedure_run, lambda n: rng.multinomial(n, [rest, p_a, rest * 0.9, rest * 0.1]))
    said = {"class_name": "ship" if verdict.top_class == 1 else None, **said}
    return Certificate.of(
        verdict, noise=noise, procedure=procedure, alpha=alpha, beta=beta, target_radius=target, **said
    )


def altered(certificate: Certificate, path: list[Any], value: Any, *, signed: bool) -> Certificate:
    """The certificate with one field changed, its digest renewed or not."""
    said = json.loads(certificate.to_json())
    place = said
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    changed = Certificate.model_validate_json(json.dumps(said))
    return changed.model_copy(update={"digest": changed.expected_digest()}) if signed else changed
