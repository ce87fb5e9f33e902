"""A whole curve of certified accuracy from one run of `optimal` with several radii, against Certify.

The paper runs Certify for such a curve, or CertifyAdp once for each radius. The expected results of both procedures for
an image are exact, given the p_A that its tape shows.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from smoothcert.chapter import Chapter, ChapterTable
from smoothcert.engine.study.adaptive import N
from smoothcert.engine.study.samples import N0, Samples
from smoothcert.engine.study.voters import Voter, best
from smoothcert.estimate import Estimate
from smoothcert.optimal import CurveOutcome
from smoothcert.plan import plan
from smoothcert.procedures import Fixed, Optimal

Floats = npt.NDArray[np.float64]
TITLE = "A curve of certified accuracy from one run"


def chapter(samples: Samples) -> Chapter:
    reach = Optimal().largest_radius(samples.noise, alpha=samples.alpha)
    radii = tuple(radius for radius in samples.radii_up_to(reach) if radius > 0)
    if not radii:
        return Chapter(
            "curve", TITLE, [f"No radius of the tables can be proved under the noise {samples.noise.label}."]
        )
    rows: list[tuple[object, ...]] = []
    figures: list[tuple[str, float | Estimate]] = []
    mean, ratio = samples.bootstrap.mean, samples.bootstrap.ratio
    for size in dict.fromkeys((1, samples.members)):
        voter = best(size)
        right = samples.counts(voter)[:, :-1].argmax(1) == samples.labels
        whole, drawn = by_optimal(samples, voter, radii)
        plain = by_certify(samples, voter, radii)
        reduction = ratio(np.full(len(samples), float(N0 + N)), drawn)
        for name, certified, cost in (("Certify", plain, (N0 + N, "")), ("optimal", whole, (mean(drawn), reduction))):
            rows.append((f"k = {size}, {name}", *(mean(100 * right * each) for each in certified.T), *cost))
        changes = [mean(100 * right * (ours - theirs)) for ours, theirs in zip(whole.T, plain.T, strict=True)]
        figures.append((f"SampleRF of the curve, k = {size}", reduction))
        figures.append((f"least change of certified accuracy, k = {size}", min(changes, key=lambda each: each.value)))
    return Chapter(
        "curve",
        TITLE,
        [
            f"The expected certified accuracy at {len(radii)} radii, given the p_A that the tapes show, by Certify "
            f"with n = {N:,} and by one run of `optimal` with all of these radii, which share its alpha = "
            f"{samples.alpha:g}. SampleRF is against Certify. The paper has no such procedure.",
        ],
        [
            ChapterTable(
                "curve",
                "Certified accuracy in percent, and the samples of an image.",
                ("classifier", *map(samples.radius_name, radii), "samples", "SampleRF"),
                rows,
            )
        ],
        figures=figures,
    )


def by_optimal(samples: Samples, voter: Voter, radii: tuple[float, ...]) -> tuple[Floats, Floats]:
    """P(certified) of each image at each radius [N, radii], and the expected samples [N], of one run."""
    planned = plan(Optimal(radii=radii), samples.noise, 0.0, alpha=samples.alpha, beta=samples.beta)
    outcomes = list(map(cache(planned.expected), samples.proofs(voter).p_a.tolist()))
    certified = [each.certified for each in outcomes if isinstance(each, CurveOutcome)]
    return np.array(certified), np.array([each.samples for each in outcomes])


def by_certify(samples: Samples, voter: Voter, radii: tuple[float, ...]) -> Floats:
    """P(certified) of each image at each radius [N, radii] by Certify with N samples."""
    plans = [plan(Fixed(n=N), samples.noise, radius, alpha=samples.alpha, beta=samples.beta) for radius in radii]
    return np.array([[each.expected(p).certify for each in plans] for p in samples.proofs(voter).p_a.tolist()])
