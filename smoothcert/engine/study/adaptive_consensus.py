"""K-consensus with adaptive sampling: the expected samples, and the forward passes that they cost."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from smoothcert.chapter import Chapter, ChapterTable
from smoothcert.engine.study import paper
from smoothcert.engine.study.adaptive import N, judge, play
from smoothcert.engine.study.consensus import agreement, consensus, cost
from smoothcert.engine.study.samples import N0, Samples
from smoothcert.estimate import Estimate
from smoothcert.procedures.adaptive import STAGES

DEVIATIONS = (1.0, 2.0, 3.0)
"""The radii in units of sigma: the paper's .25, .5 and .75 at sigma = .25."""


COSTS = ("SampleRF", "KCR, %", "TimeRF")


def chapter(samples: Samples) -> Chapter:
    k, noise = samples.members, samples.noise
    leading = -(-k // 2)
    rows: list[tuple[object, ...]] = []
    figures: list[tuple[str, float | Estimate]] = []
    found = [noise.radius(float(ndtr(deviations))) for deviations in DEVIATIONS]
    radii = sorted({float(max(1, round(r))) if noise.whole else round(r, 6) for r in found})
    scale = found[0]
    for radius in radii:
        for first in dict.fromkeys((leading, k)):
            voter = consensus(k, first)
            staged, agreed = play(samples, voter, STAGES, radius), agreement(samples, voter)
            accuracy, reduction = judge(samples, voter, staged)
            rate = samples.bootstrap.ratio(100 * staged.samples * agreed, staged.samples)
            work = staged.samples * cost(agreed, k, first)
            time = samples.bootstrap.ratio(np.full(len(samples), float(N0 + N)), work)
            rows.append((radius, f"K = {first} of {k}", accuracy, *_returned(staged.certified + staged.abandoned),
                         reduction, rate, time))  # fmt: skip
            if first < k:
                figures += [(f"SampleRF, r = {radius:g}", reduction), (f"KCR, r = {radius:g}", rate)]
                figures += [(f"TimeRF, r = {radius:g}", time)]
        method = samples.about.method if (samples.about.method, radius) in paper.ADAPTIVE_CONSENSUS else "gaussian"
        theirs = paper.ADAPTIVE_CONSENSUS.get((str(method), radius)) if abs(scale - 0.25) < 1e-9 else None
        if theirs and noise.norm == "l2":
            name = f"the paper, 10 ResNet110, {method}, K = 5"
            rows.append((radius, name, theirs.accuracy, *[""] * 4, theirs.samples, theirs.rate, theirs.time))
    return Chapter(
        "adaptive-consensus",
        "K-consensus with adaptive sampling",
        [
            f"CertifyAdp with the stages {', '.join(f'{n:,}' for n in STAGES)}, as in the chapter on adaptive "
            f"sampling: expected values given p_A and the rate of consensus that the tapes show. KCR is the percentage "
            f"of the samples drawn for which only K members run; TimeRF is the forward passes of Certify with n = "
            f"{N:,} and the full vote, divided by those that are needed.",
        ],
        [
            ChapterTable(
                "adaptive-consensus",
                "Adaptive sampling and consensus together.",
                ("radius", "members", "acc_cert, %", *(f"ASR {j}, %" for j in range(1, 5)), *COSTS),
                rows,
            )
        ],
        figures=figures,
    )  # fmt: skip


def _returned(shares: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[float]:
    """ASR of each stage: the percentage of images that are decided in it."""
    return [round(float(value), 1) for value in 100 * shares.mean(0)]
