"""The report of many certificates: its time, and the size of its page."""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.result import Figure, Result
from smoothcert.certificate import (
    BOUND,
    Certificate,
    EnsembleRecord,
    InputRecord,
    Provenance,
    SamplingRecord,
    ShapeRecord,
)
from smoothcert.cli.app import run as command
from smoothcert.ledger import Ledger
from smoothcert.noise import RoundedGaussian
from smoothcert.procedures import Fixed
from smoothcert.procedures import run as sampled
from smoothcert.seeds import new_seed

SECONDS, BYTES = 30.0, 5_000_000
"""The goals."""
NOISE, PROCEDURE = RoundedGaussian(0.25), Fixed(n=10_000)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--certificates", type=int, default=10_000)


def run(options: argparse.Namespace) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        ledger, page = Path(folder, "ledger.jsonl"), Path(folder, "report.html")
        write(ledger, options.certificates)
        began, worked = time.monotonic(), time.process_time()
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                command(["report", str(ledger), "--out", str(page)])
        except SystemExit as end:
            if end.code:
                raise
        seconds, processor = time.monotonic() - began, time.process_time() - worked
        sizes = {path.name: path.stat().st_size for path in (ledger, page, page.with_suffix(".md"))}
    return Result(
        name="report",
        compares=f"smoothcert report of {options.certificates:,} certificates",
        columns=("file", "bytes"),
        rows=[*sizes.items()],
        figures=[
            Figure("seconds", seconds, at_most=SECONDS),
            Figure("seconds of processor time", processor),
            Figure("bytes of the page", sizes[page.name], at_most=BYTES),
        ],
        notes=["The certificates are of real runs of `fixed` on simulated counts, and every one is verified."],
    )


def write(path: Path, number: int) -> None:
    """A ledger of certificates whose p_A are spread as those of an ensemble are."""
    rng, seed = np.random.default_rng(0), new_seed()
    with Ledger(path, {"benchmark": "report"}) as ledger:
        for index in range(number):
            p_a = float(np.clip(rng.beta(3, 0.5), 0.34, 0.99999))
            line = {"image": index, "label": int(rng.random() < 0.9), "seconds": 1.0}
            ledger.append({**line, "certificate": certificate(index, p_a, rng, seed).model_dump(mode="json")})


def certificate(index: int, p_a: float, rng: np.random.Generator, seed: str) -> Certificate:
    """The certificate of an image whose class 1 has this probability."""
    verdict = sampled(
        PROCEDURE.start(NOISE, None, alpha=0.001, beta=0.001),
        lambda n: rng.multinomial(n, [(1 - p_a) / 2, p_a, (1 - p_a) / 2, 0.0]),
    )
    provenance = Provenance(
        ensemble=EnsembleRecord(
            name="simulated",
            digest="0" * 64,
            members=tuple(str(k) * 64 for k in range(5)),
            voting="soft",
            consensus=None,
        ),
        input=InputRecord(sha256=f"{index:064x}", shape=(3, 32, 32)),
        sampling=SamplingRecord(
            seed=seed,
            image=index,
            scheme=BOUND + NOISE.scheme,
            device="cpu",
            precision="float32",
            shapes=(ShapeRecord(start=0, stop=verdict.samples, rows=64),),
        ),
        versions={},
        started_at=NOW,
        finished_at=NOW,
    )
    return Certificate.of(
        verdict,
        index=index,
        target_radius=None,
        alpha=0.001,
        beta=0.001,
        noise=NOISE,
        procedure=PROCEDURE,
        evaluations=5 * verdict.samples,
        provenance=provenance,
    )
