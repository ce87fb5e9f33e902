"""K-consensus with adaptive sampling: the expected samples, and the forward passes that they cost."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.special import ndtr

from smoothcert.chapter import Chapter, ChapterTable
from smoothcert.engine.study import paper
from smoothcert.engine.study.adaptive import N, judge, play
from smoothcert.engine.study.consensus import agreement, consensus, cost
from smoothcert.engine.study.samples import N0, Samples
from smoothcert.estimate import Estimate
from smoothcert.noise import Noise
from smoothcert.procedures.adaptive import STAGES

DEVIATIONS = (1.0, 2.0, 3.0)
"""The target radii in units of sigma: the paper's .25, .5 and .75 at sigma = .25."""
COSTS = ("SampleRF", "KCR, %", "TimeRF")


def chapter(samples: Samples) -> Chapter:
    k, noise = samples.members, samples.noise
    leading = -(-k // 2)
    rows: list[tuple[object, ...]] = []
    figures: list[tuple[str, float | Estimate]] = []
    theirs = paper.beside(paper.ADAPTIVE_CONSENSUS, samples.about.method, noise)
    for radius in target_radii(noise, theirs[1] if theirs else ()):
        for first in dict.fromkeys((leading, k)):
            voter = consensus(k, first)
            staged, agreed = play(samples, voter, STAGES, radius), agreement(samples, voter)
            accuracy, reduction = judge(samples, voter, staged)
            rate = samples.bootstrap.ratio(100 * staged.samples * agreed, staged.samples)
            work = staged.samples * cost(agreed, k, first)
            time = samples.bootstrap.ratio(np.full(len(samples), float(N0 + N)), work)
            returned = [samples.bootstrap.mean(100 * each) for each in (staged.certified + staged.abandoned).T]
            rows.append((radius, f"K = {first} of {k}", accuracy, *returned, reduction, rate, time))
            if first < k:
                figures += [(f"SampleRF, r = {radius:g}", reduction), (f"KCR, r = {radius:g}", rate)]
                figures += [(f"TimeRF, r = {radius:g}", time)]
        if theirs and radius in theirs[1]:
            row = theirs[1][radius]
            name = f"the paper, 10 ResNet110, {theirs[0]}, K = 5"
            rows.append((radius, name, row.accuracy, *row.returned, row.samples, row.rate, row.time))
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
    )


def target_radii(noise: Noise, theirs: Iterable[float]) -> list[float]:
    """The radii that p_A = Phi(1), Phi(2) and Phi(3) prove, and those of the paper; in l0, whole numbers from 1 on."""
    found = [noise.radius(float(ndtr(deviations))) for deviations in DEVIATIONS]
    return sorted({*theirs, *(float(max(1, round(r))) if noise.whole else round(r, 6) for r in found)})
