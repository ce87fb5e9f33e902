"""Adaptive sampling: the paper's eleven schedules at two radii.

The stages of a schedule are longer than a tape, so they are not sampled. Instead, the result of CertifyAdp on an image
is its expectation, given the probability p_A of class A that the tape shows. The stages are independent and their
counts binomial, so the expectation is exact given p_A. The uncertainty of p_A itself enters as a mean over its
posterior distribution, which is a Beta distribution under Jeffreys' prior.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv, ndtr

from smoothcert.chapter import Chapter, ChapterTable
from smoothcert.engine.study import paper
from smoothcert.engine.study.samples import N0, Samples
from smoothcert.engine.study.voters import Voter, best
from smoothcert.estimate import Estimate
from smoothcert.noise import Noise
from smoothcert.procedures import Adaptive

Floats = npt.NDArray[np.float64]
N = 100_000
"""The number of samples of Certify, with which SampleRF compares."""
LEVELS = (np.arange(9) + 0.5) / 9
"""The levels of the quantiles that stand for the distribution of p_A in its mean."""
DEVIATIONS = (1.0, 3.0)
"""The target radii in units of sigma: the paper's .25 and .75 at sigma = .25. Other noises use the radii that need the
same p_A."""


@dataclass(frozen=True, eq=False)
class Staged:
    """The expected result of a schedule for each of N images: shares by stage [N, stages], and samples [N]."""

    certified: Floats
    abandoned: Floats
    samples: Floats


def chapter(samples: Samples) -> Chapter:
    rows: list[tuple[object, ...]] = []
    by_stage: list[tuple[object, ...]] = []
    figures: list[tuple[str, float | Estimate]] = []
    for radius, size, stages in product(
        target_radii(samples.noise), dict.fromkeys((1, samples.members)), paper.SCHEDULES
    ):
        staged = play(samples, best(size), stages, radius)
        accuracy, reduction = judge(samples, best(size), staged)
        setting = (radius, f"k = {size}", _named(stages))
        rows.append((*setting, accuracy, reduction))
        by_stage.append((*setting, *_padded(shares(samples, staged))))
        figures.append((f"SampleRF, r = {radius:g}, k = {size}, {_named(stages)}", reduction))
        for name, theirs in beside(samples, radius, size, stages):
            setting = (radius, f"the paper, {name}", _named(stages))
            rows.append((*setting, theirs.accuracy, theirs.reduction))
            by_stage.append((*setting, *_padded([share for stage in theirs.shares for share in stage])))
    return Chapter(
        "adaptive",
        "Adaptive sampling",
        [
            f"The expected result of CertifyAdp with alpha = {samples.alpha:g} and beta = {samples.beta:g}, given the "
            f"p_A that the tapes show; no stage was sampled for it. ASC and ASA of a stage are the percentages of "
            f"images certified and abandoned in it; images that the last stage does not certify count as abandoned "
            f"there. SampleRF is against Certify with n = {N:,}.",
            "The paper prints the headings ASA and ASC of its tables the other way round: its figures under ASA "
            "add up to the certified accuracy plus the share that is certified for a wrong class. Its rows are shown "
            "here with the headings exchanged.",
        ],
        [
            ChapterTable(
                "adaptive",
                "Schedules of stages.",
                ("radius", "members", "stages", "acc_cert, %", "SampleRF"),
                rows,
            ),
            ChapterTable(
                "adaptive-stages",
                "The percentages of images that each stage certifies (ASC) and abandons (ASA).",
                ("radius", "members", "stages", *(f"{name} {j}, %" for j in range(1, 6) for name in ("ASC", "ASA"))),
                by_stage,
            ),
        ],
        figures=figures,
    )


def target_radii(noise: Noise) -> list[float]:
    """The radii that p_A = Phi(1) and Phi(3) prove, rounded to six decimals; in l0, whole numbers from 1 on."""
    found = [noise.radius(float(ndtr(deviations))) for deviations in DEVIATIONS]
    return sorted({float(max(1, round(r))) if noise.whole else round(r, 6) for r in found})


def play(samples: Samples, voter: Voter, stages: tuple[int, ...], radius: float) -> Staged:
    """The expected result of a schedule for each image, given the class counts of this voter."""
    counts = samples.counts(voter)
    successes, total = counts[:, :-1].max(1), counts.sum(1)
    p = betaincinv(successes[:, None] + 0.5, (total - successes)[:, None] + 0.5, LEVELS)  # [N, levels]
    boundaries = Adaptive(stages=stages).boundaries(samples.noise, radius, alpha=samples.alpha, beta=samples.beta)
    certify, abandon = boundaries.certify.tolist(), boundaries.abandon.tolist()
    # `alive` is the probability that a stage is reached. Stage j certifies from `upper` on, and abandons up to `low`
    # or, if it is the last one, at every count below `upper`.
    alive, drawn = np.ones_like(p), np.full_like(p, float(N0))
    certified, abandoned = [], []
    for j, (n, upper, low) in enumerate(zip(stages, certify, abandon, strict=True)):
        drawn += n * alive
        certified.append(alive * at_least(upper, n, p))
        given_up = 1 - at_least(upper, n, p) if j == len(stages) - 1 else 1 - at_least(low + 1, n, p)
        abandoned.append(alive * given_up)
        alive = alive - certified[-1] - abandoned[-1]
    by_stage = [np.stack(each, axis=-1).mean(1) for each in (certified, abandoned)]
    return Staged(by_stage[0], by_stage[1], drawn.mean(1))


def at_least(count: int, n: int, p: Floats) -> Floats:
    """P(Binomial(n, p) >= count)."""
    if count <= 0:
        return np.ones_like(p)
    if count > n:
        return np.zeros_like(p)
    tail: Floats = betainc(count, n - count + 1, p)
    return tail


def judge(samples: Samples, voter: Voter, staged: Staged) -> tuple[Estimate, Estimate]:
    """The certified accuracy in percent and SampleRF."""
    right = samples.counts(voter)[:, :-1].argmax(1) == samples.labels
    accuracy = samples.bootstrap.mean(100 * right * staged.certified.sum(1))
    reduction = samples.bootstrap.ratio(np.full(len(samples), float(N0 + N)), staged.samples)
    return accuracy, reduction


def shares(samples: Samples, staged: Staged) -> list[Estimate]:
    """ASC and ASA of every stage in turn, in percent of images."""
    both = np.stack([staged.certified, staged.abandoned], axis=-1).reshape(len(samples), -1)
    return [samples.bootstrap.mean(100 * column) for column in both.T]


def _padded(cells: Sequence[object]) -> list[object]:
    """The cells of five stages; those of the stages that a schedule does not have are empty."""
    return [*cells, *[""] * (10 - len(cells))]


def _named(stages: tuple[int, ...]) -> str:
    return " ".join(f"{n:,}" for n in stages)


def beside(
    samples: Samples, radius: float, size: int, stages: tuple[int, ...]
) -> Iterator[tuple[str, paper.PaperSchedule]]:
    """The paper's rows for this schedule: those of one network beside one member, those of ten beside all members."""
    method, noise = samples.about.method, samples.noise
    one, ten = paper.beside(paper.ADAPTIVE, method, noise), paper.beside(paper.ADAPTIVE_ENSEMBLE, method, noise)
    if one and size == 1 and radius in one[1]:
        yield f"ResNet110, {one[0]}", one[1][radius][paper.SCHEDULES.index(stages)]
    if ten and size > 1 and radius in ten[1] and ten[1][radius].stages == stages:
        yield f"10 ResNet110, {ten[0]}", ten[1][radius]
