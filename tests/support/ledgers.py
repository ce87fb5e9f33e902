"""Ledgers of certificates of real runs, as `certify_many` and the benchmarks write them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from smoothcert.certificate import (
    BOUND,
    Certificate,
    EnsembleRecord,
    InputRecord,
    Provenance,
    SamplingRecord,
    ShapeRecord,
)
from smoothcert.noise import Noise, RoundedGaussian
from smoothcert.procedures import Fixed, Parameters
from tests.support.certificates import certificate_of

NOISE = RoundedGaussian(0.25)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def certified(
    index: int,
    p_a: float,
    *,
    ensemble: str = "one",
    noise: Noise = NOISE,
    procedure: Parameters = Fixed(n=1000),  # noqa: B008  it is frozen
    image: str | None = None,
    **fields: Any,
) -> Certificate:
    """A certificate with everything that verification looks at; class 1 has this p_A."""
    bare = certificate_of(procedure, p_a, seed=index, noise=noise, index=index, **fields)
    digests = [hashlib.sha256(f"{ensemble} {place}".encode()).hexdigest() for place in range(2)]
    provenance = Provenance(
        ensemble=EnsembleRecord(
            name=ensemble, digest=digests[0], members=tuple(digests), voting="soft", consensus=None
        ),
        input=InputRecord(sha256=image or hashlib.sha256(str(index).encode()).hexdigest(), shape=(3, 8, 8)),
        sampling=SamplingRecord(
            seed="5" * 32,
            image=index,
            scheme=BOUND + noise.scheme,
            device="cpu",
            precision="float32",
            shapes=(ShapeRecord(start=0, stop=bare.samples, rows=64),),
        ),
        versions={"smoothcert": "0.2.0"},
        started_at=BEGAN + timedelta(seconds=index),
        finished_at=BEGAN + timedelta(seconds=index + 2),
    )
    return certificate_of(
        procedure,
        p_a,
        seed=index,
        noise=noise,
        index=index,
        provenance=provenance,
        evaluations=2 * bare.samples,
        **fields,
    )


def write_ledger(path: Path, certificates: Sequence[Certificate], labels: Sequence[int] | None = None) -> Path:
    """A ledger with these labels, or without any."""
    lines: list[dict[str, Any]] = [{"run": {"certify_many": 1}, "once": {}}]
    for place, each in enumerate(certificates):
        label = {} if labels is None else {"label": labels[place]}
        lines.append({"image": place, **label, "certificate": each.model_dump(mode="json")})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
