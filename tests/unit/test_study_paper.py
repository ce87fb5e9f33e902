"""The paper's own rows agree with each other, and are shown beside ours."""

from __future__ import annotations

import numpy as np
import pytest

from smoothcert.engine.study import (
    adaptive,
    adaptive_consensus,
    paper,
)
from smoothcert.noise import Gaussian, GaussianLinf, Replacement, RoundedGaussian
from smoothcert.procedures.adaptive import STAGES
from tests.support.recorded import samples_of


def test_the_radii_of_the_schedules_are_the_papers() -> None:
    assert adaptive.target_radii(Gaussian(0.25)) == [0.25, 0.75]
    assert adaptive.target_radii(Gaussian(1.0)) == [1.0, 3.0]
    assert all(radius == int(radius) >= 1 for radius in adaptive.target_radii(Replacement(0.8, 2)))


def test_the_papers_shares_add_up_and_their_headings_are_exchanged() -> None:
    """The values under ASA cannot be abstentions: they add up to no less than the certified accuracy."""
    single = [rows for by_radius in paper.ADAPTIVE.values() for rows in by_radius.values()]
    for rows in single:
        assert tuple(row.stages for row in rows) == paper.SCHEDULES
    together = [row for by_radius in paper.ADAPTIVE_ENSEMBLE.values() for row in by_radius.values()]
    wrong = [(row, 14) for row in together] + [(row, 12) for rows in single for row in rows]
    for row, most_wrong in wrong:
        certified, abandoned = (sum(shares) for shares in zip(*row.shares, strict=True))
        assert certified + abandoned == pytest.approx(100, abs=0.5)
        assert row.accuracy - 0.5 <= certified <= row.accuracy + most_wrong


def sample_reduction(stages: tuple[int, ...], returned: list[float]) -> float:
    """SampleRF, from the percentages of images that each stage returns."""
    drawn = np.cumsum(stages) + 100
    return float(100_100 / (np.array(returned) / 100 @ drawn))


def test_the_papers_sample_reductions_follow_from_the_shares_of_its_stages() -> None:
    """They agree to their last digit, so a wrong digit in a row, or KCR in place of SampleRF, would be noticed."""
    for by_radius in paper.ADAPTIVE_CONSENSUS.values():
        for row in by_radius.values():
            assert sample_reduction(STAGES, list(row.returned)) == pytest.approx(row.samples, abs=0.006)
            assert row.samples < row.time < 2 * row.samples  # five of ten members run on KCR of the samples
    for by_radius in paper.ADAPTIVE_ENSEMBLE.values():
        for row in by_radius.values():
            returned = [sum(shares) for shares in row.shares]
            assert sample_reduction(row.stages, returned) == pytest.approx(row.reduction, abs=0.006)


def test_the_papers_average_radii_lie_between_the_sums_of_their_accuracies() -> None:
    """The ACR is the area under a falling curve: it lies between the sums of its values at both ends of the steps."""
    together = [row for table in (*paper.SIZES.values(), *paper.INFERENCES.values()) for row in table.values()]
    for row in (*together, *paper.TRAINED.values(), *(r for t in paper.AGGREGATION.values() for r in t.values())):
        radii, accuracies = np.array(list(row.accuracies)), np.array(list(row.accuracies.values())) / 100
        steps = np.diff(radii)
        rounding = 0.0005 * (1 + steps.sum())
        assert (np.diff(accuracies) <= 0).all()
        assert steps @ accuracies[1:] <= row.acr + rounding
        assert row.acr <= steps @ accuracies[:-1] + 6 * steps[-1] * accuracies[-1] + rounding
    assert set(paper.SIZES["consistency", Gaussian(1.0)]) == set(paper.SIZES["gaussian", Gaussian(1.0)])
    assert max(paper.SIZES["gaussian", Gaussian(1.0)][5].accuracies) == 2.5


def test_the_papers_rows_stand_beside_ours_at_its_radii() -> None:
    quarter, half = (samples_of([0.6, 0.95, 1.0], n=300, noise=Gaussian(sigma)) for sigma in (0.25, 0.5))
    (table,) = adaptive_consensus.chapter(half).tables
    assert {row[0] for row in table.rows} == {0.5, 1.0, 1.5}
    (theirs,) = (row for row in table.rows if str(row[1]).startswith("the paper"))
    name = "the paper, 10 ResNet110, gaussian, K = 5"
    assert theirs == (1.0, name, 30.2, 53.4, 31.6, 10.8, 4.2, 13.89, 77.5, 22.6)
    assert adaptive_consensus.target_radii(Gaussian(0.5), (1.25,)) == [0.5, 1.0, 1.25, 1.5]
    schedules, stages = adaptive.chapter(quarter).tables
    beside = [row for row in schedules.rows if row[1] == "the paper, 10 ResNet110, gaussian"]
    named = "100 1,000 10,000 120,000"
    assert [(row[0], row[2], *row[3:]) for row in beside] == [(0.25, named, 70.6, 30.48), (0.75, named, 42.2, 6.16)]
    assert len([row for row in stages.rows if row[1] == "the paper, ResNet110, gaussian"]) == 2 * len(paper.SCHEDULES)


def test_rows_in_l2_do_not_stand_beside_figures_in_l_infinity() -> None:
    assert paper.beside(paper.SIZES, "gaussian", GaussianLinf(0.25, 3072)) is None
    assert paper.beside(paper.SIZES, "gaussian", RoundedGaussian(0.25)) is not None
