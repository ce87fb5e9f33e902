"""Plans say what is within reach and what it costs, before any sample is drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from smoothcert.bounds import fewest_to_prove
from smoothcert.errors import LEAST_LEVEL, DomainError
from smoothcert.noise import Gaussian, Noise, Replacement, Uniform
from smoothcert.plan import information_limit, last_stage, plan, recommended_stages, relative_entropy
from smoothcert.procedures import Adaptive, AnyProcedure, Fixed, Largest, Optimal, Sequential, run

NOISE = Gaussian(0.25)
EVERY = [Fixed(), Adaptive(), Adaptive(keep_samples=True), Sequential(), Sequential(abandon="lost-certificate")]


@pytest.mark.parametrize(("sigma", "largest"), [(0.25, 0.952864), (0.5, 1.905728)])
def test_certify_reaches_its_golden_radius(sigma: float, largest: float) -> None:
    assert plan(Fixed(), Gaussian(sigma), 0.1).largest_radius == largest


@pytest.mark.parametrize(("s", "golden"), [(2, 110_035), (3, 115_905), (4, 120_069), (5, 123_300)])
def test_the_last_stage_has_its_golden_size(s: int, golden: int) -> None:
    assert last_stage(100_000, s, 0.001) == golden
    assert recommended_stages(100_000, s=s)[-1] == golden


@pytest.mark.parametrize(
    ("noise", "end"),
    [(Gaussian(0.25), None), (Uniform(1.0), 1.0), (Uniform(0.433), 0.433), (Replacement(0.8, 2), None)],
)
def test_the_radii_of_a_noise_may_end(noise: Noise, end: float | None) -> None:
    planned = plan(Fixed(), noise, 0)
    assert planned.supremum == end
    if end is not None:
        assert plan(Fixed(), noise, end).samples_needed is None
        assert plan(Fixed(), noise, end - 1e-6).samples_needed is not None


@pytest.mark.parametrize("procedure", [Fixed(), Largest(), Sequential(), Optimal(), Optimal(n0=1)])
def test_the_smallest_alpha_has_a_plan(procedure: AnyProcedure) -> None:
    """A sequential test leaves a share of alpha unspent, so its last look has less than the smallest alpha."""
    planned = plan(procedure, NOISE, 0.25, alpha=LEAST_LEVEL)
    p_lower = LEAST_LEVEL ** (1 / procedure.most_samples)
    assert planned.feasible
    assert planned.largest_radius == pytest.approx(NOISE.radius(p_lower), abs=2e-6)


def test_a_whole_radius_is_written_as_one() -> None:
    assert "beyond the largest provable one, 9;" in plan(Fixed(), Replacement(0.8, 2), 12).reason


@pytest.mark.parametrize("s", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("n", [5_000, 100_000, 1_000_000])
def test_recommended_stages_lose_no_radius_of_certify(n: int, s: int) -> None:
    stages = recommended_stages(n, s=s)
    assert len(stages) == s
    assert Adaptive(stages=stages).largest_radius(NOISE, alpha=0.001) >= Fixed(n=n).largest_radius(NOISE, alpha=0.001)
    if s > 1:
        less = (*stages[:-1], stages[-1] - 2)
        assert Adaptive(stages=less).largest_radius(NOISE, alpha=0.001) < Fixed(n=n).largest_radius(NOISE, alpha=0.001)


def test_too_few_samples_for_the_stages_are_refused() -> None:
    with pytest.raises(DomainError, match="100 samples are too few for 4 stages"):
        recommended_stages(100, s=4)


@pytest.mark.parametrize("procedure", EVERY)
def test_a_radius_is_feasible_up_to_the_largest_and_not_beyond(procedure: AnyProcedure) -> None:
    largest = procedure.largest_radius(NOISE, alpha=0.001)
    assert plan(procedure, NOISE, largest * (1 - 1e-9)).feasible
    beyond = plan(procedure, NOISE, largest * (1 + 1e-5))
    assert not beyond.feasible
    assert beyond.fewest_samples is None
    assert f"{beyond.largest_radius:.6f}" in beyond.reason
    assert f"{beyond.samples_needed:,}" in beyond.reason


@settings(max_examples=30)
@given(st.floats(0.01, 0.9))
def test_the_samples_needed_are_enough_and_one_less_is_not(radius: float) -> None:
    needed = plan(Fixed(), NOISE, radius).samples_needed
    assert needed is not None
    assert plan(Fixed(n=needed), NOISE, radius).feasible
    assert needed == 1 or not plan(Fixed(n=needed - 1), NOISE, radius).feasible
    needed = plan(Sequential(), NOISE, radius).samples_needed
    assert needed is not None
    assert plan(Sequential(max_samples=needed), NOISE, radius).feasible
    assert needed == 1 or not plan(Sequential(max_samples=needed - 1), NOISE, radius).feasible


@pytest.mark.parametrize("procedure", EVERY)
def test_the_best_and_the_worst_case_are_what_a_run_draws(procedure: AnyProcedure) -> None:
    planned = plan(procedure, NOISE, 0.5)
    target = None if procedure.name == "fixed" else 0.5
    best = run(procedure.start(NOISE, target, alpha=0.001, beta=0.001), lambda n: np.array([n, 0, 0]))
    assert best.samples == planned.fewest_samples
    assert planned.most_samples == (100_100 if procedure.name == "fixed" else 131_200)


def test_largest_expects_fewer_samples_than_the_radius_takes_where_it_ends_with_a_smaller_one() -> None:
    planned = plan(Largest(), NOISE, 0.5)
    assert planned.fewest_samples is not None
    below, above = planned.expected(planned.p0 - 0.05), planned.expected(planned.p0 + 0.01)
    assert below.samples < planned.fewest_samples < above.samples
    assert below.radius is not None
    assert above.radius is not None
    assert below.radius < 0.5 < above.radius


@pytest.mark.parametrize("procedure", EVERY)
def test_an_impossible_radius_is_explained(procedure: AnyProcedure) -> None:
    planned = plan(procedure, NOISE, 10.0)
    assert not planned.feasible
    assert planned.samples_needed is None
    assert "so close to 1 that it is beyond what can be computed" in planned.reason


def test_a_radius_at_the_end_of_a_noise_needs_more_than_any_number_of_samples() -> None:
    assert "no number of samples would be enough" in plan(Sequential(), Uniform(0.5), 0.5).reason


def test_more_samples_than_a_procedure_may_have_are_named_with_its_limit() -> None:
    planned = plan(Sequential(), NOISE, 1.5)
    assert planned.samples_needed == pytest.approx(math.log(0.001) / math.log(stats.norm.cdf(6)), rel=1e-6)
    assert (planned.feasible, planned.boundaries) == (False, None)
    assert f"{planned.samples_needed:,} samples, more than the 10,000,000" in planned.reason
    assert "more than" not in plan(Fixed(), NOISE, 1.5).reason


def test_nothing_can_be_expected_of_a_test_that_does_not_exist() -> None:
    with pytest.raises(DomainError, match=r"10\.0"):
        plan(Sequential(), NOISE, 10.0).expected(0.9)


@pytest.mark.parametrize(
    "procedure",
    [
        Fixed(n=500),
        Adaptive(stages=(50, 400)),
        Adaptive(stages=(50, 400), keep_samples=True),
        Sequential(max_samples=600),
    ],
)
@pytest.mark.parametrize("p_a", [0.75, 0.8413, 0.9])
def test_expected_samples_are_what_many_runs_average(procedure: AnyProcedure, p_a: float) -> None:
    planned = plan(procedure, NOISE, 0.25, alpha=0.05, beta=0.05)
    rng = np.random.default_rng(7)

    def estimate_only(n: int) -> np.ndarray:  # the plan begins when the class has been chosen
        return np.array([n, 0, 0]) if n == 100 else np.array([k := int(rng.binomial(n, p_a)), n - k, 0])

    target = None if procedure.name == "fixed" else 0.25
    verdicts = [run(procedure.start(NOISE, target, alpha=0.05, beta=0.05), estimate_only) for _ in range(1500)]
    outcome = planned.expected(p_a)
    samples = np.array([v.samples for v in verdicts])
    assert abs(samples.mean() - outcome.samples) <= 4 * samples.std() / math.sqrt(len(samples)) + 1e-9
    certified = sum(v.radius >= 0.25 for v in verdicts)
    assert stats.binomtest(certified, len(verdicts), min(1.0, outcome.certify)).pvalue > 1e-4
    abandoned = sum(v.stop_reason == "abandoned" for v in verdicts)
    assert stats.binomtest(abandoned, len(verdicts), min(1.0, outcome.abandon)).pvalue > 1e-4


@pytest.mark.parametrize("procedure", EVERY[1:4])
@pytest.mark.parametrize("p_a", [0.5, 0.7, 0.83, 0.85, 0.9, 0.99])
def test_no_strict_test_undercuts_the_information_limit(procedure: AnyProcedure, p_a: float) -> None:
    planned = plan(procedure, NOISE, 0.25)
    outcome = planned.expected(p_a)
    limit = information_limit(p_a, planned.p0, outcome, alpha=0.001, beta=0.001)
    assert outcome.samples - procedure.n0 >= limit > 0


def test_relative_entropy_is_scipy_s() -> None:
    assert relative_entropy(0.3, 0.6) == pytest.approx(stats.entropy([0.3, 0.7], [0.6, 0.4]))
    assert relative_entropy(1.0, 0.5) == relative_entropy(0.0, 0.5) == pytest.approx(math.log(2))


def test_there_is_no_limit_at_p0() -> None:
    planned = plan(Sequential(), NOISE, 0.25)
    with pytest.raises(DomainError, match="nothing to tell apart"):
        information_limit(planned.p0, planned.p0, planned.expected(planned.p0), alpha=0.001, beta=0.001)


@given(st.floats(0.5, 1 - 1e-9), st.floats(1e-6, 0.5))
def test_the_fewest_samples_solve_their_inequality(p0: float, alpha: float) -> None:
    n = fewest_to_prove(p0, alpha)
    assert n is not None
    assert n * math.log(p0) <= math.log(alpha) * (1 - 1e-12)
    assert n == 1 or (n - 1) * math.log(p0) >= math.log(alpha) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("radius", "alpha", "beta", "seen"),
    [(-1.0, 0.1, 0.1, "-1.0"), (math.nan, 0.1, 0.1, "nan"), (0.1, 0.0, 0.1, "0.0"), (0.1, 0.1, 1.5, "1.5")],
)
def test_bad_input_is_named(radius: float, alpha: float, beta: float, seen: str) -> None:
    with pytest.raises(DomainError, match=seen):
        plan(Adaptive(), NOISE, radius, alpha=alpha, beta=beta)


@pytest.mark.parametrize("p_a", [-0.1, 1.1, math.nan])
def test_p_a_must_be_a_probability(p_a: float) -> None:
    with pytest.raises(DomainError, match=str(p_a)):
        plan(Adaptive(), NOISE, 0.25).expected(p_a)


def test_samples_that_fill_a_part_of_a_slice_take_as_long_as_a_slice() -> None:
    planned = plan(Adaptive(stages=(100, 1000), n0=50), Gaussian(0.25), 0.25)
    assert planned.rows(0, 64) == 0
    assert planned.rows(50, 64) == 64
    assert planned.rows(150, 64) == 64 + 128
    assert planned.rows(1150, 64) == 64 + 128 + 1024
    assert planned.rows(650, 64) == pytest.approx(64 + 128 + 512)
    assert planned.rows(1150, 1) == 1150
