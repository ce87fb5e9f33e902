"""The procedures with a price, `optimal` and `largest`, driven by known counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import stats

from smoothcert.bounds import lower_bound
from smoothcert.certificate import Certificate
from smoothcert.errors import CountsError, DomainError
from smoothcert.evaluation import Judged, certified_accuracy, proved_radius
from smoothcert.noise import Gaussian, Replacement
from smoothcert.plan import plan
from smoothcert.procedures import (
    PROCEDURES,
    Largest,
    Optimal,
    Parameters,
    Procedure,
    certify_largest,
    certify_optimal,
    run,
)
from smoothcert.report import Report
from smoothcert.verdict import Verdict
from smoothcert.verification import verify
from tests.support.certificates import altered, certificate_of

NOISE = Gaussian(0.25)


def drive(procedure: Procedure, *draws: Sequence[int]) -> int | Verdict:
    """The next request of the procedure after these counts, or its verdict."""
    wanted = next(procedure)
    for counts in draws:
        assert sum(counts) == wanted
        try:
            wanted = procedure.send(np.array(counts))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
    return wanted


def verdict(procedure: Procedure, *draws: Sequence[int]) -> Verdict:
    found = drive(procedure, *draws)
    assert isinstance(found, Verdict), f"it asks for {found} more"
    return found


# --- optimal


def test_the_leader_is_certified_at_its_golden_count() -> None:
    """93 of 96 suffice at r = sigma, and 92 do not."""
    found = verdict(certify_optimal(NOISE, 0.25), [1, 31, 0], [1, 31, 0], [1, 31, 0])
    assert (found.top_class, found.radius, found.p_lower) == (1, 0.25, NOISE.probability(0.25))
    assert (found.samples, found.stop_reason, found.selection) == (96, "certified", ())
    last = found.stages[-1]
    assert (last.n, last.count, last.certify_at, last.abandon_at, last.outcome) == (96, 93, 93, 66, "certified")
    assert drive(certify_optimal(NOISE, 0.25), [1, 31, 0], [1, 31, 0], [2, 30, 0]) == 32


def test_the_leader_may_change_between_looks() -> None:
    found = verdict(certify_optimal(NOISE, 0.25), [18, 14, 0], [0, 32, 0], *2 * [[0, 32, 0]], *[[0, 32, 0]] * 5)
    assert [stage.count for stage in found.stages][:2] == [18, 46]
    assert found.top_class == 1


def test_of_equals_the_lowest_index_leads() -> None:
    found = verdict(certify_optimal(NOISE, 0.25), [16, 16, 0])
    assert (found.stop_reason, found.stages[0].count, found.stages[0].abandon_at) == ("abandoned", 16, 17)
    assert (found.top_class, found.radius, found.p_lower) == (None, 0.0, None)


def test_no_class_never_leads() -> None:
    found = verdict(certify_optimal(NOISE, 0.25), [0, 0, 32])
    assert (found.stop_reason, found.samples, len(found.stages)) == ("no-class", 32, 1)
    mostly = verdict(certify_optimal(NOISE, 0.25), [0, 2, 30])
    assert (mostly.stop_reason, mostly.stages[0].count) == ("abandoned", 2)
    chosen = verdict(certify_optimal(NOISE, 0.25, n0=10), [0, 0, 10])
    assert (chosen.stop_reason, chosen.samples) == ("no-class", 10)


def test_a_class_chosen_from_other_samples_is_kept() -> None:
    """Mutant killed: certifying the leader instead of the chosen class."""
    found = verdict(certify_optimal(NOISE, 0.25, n0=10), [6, 4, 0], [0, 32, 0])
    assert (found.stop_reason, found.samples, found.selection) == ("abandoned", 42, (6, 4, 0))
    assert found.stages[0].count == 0


def test_a_run_ends_after_its_last_look() -> None:
    start = certify_optimal(NOISE, 0.25, max_samples=70, price=10**9)
    found = verdict(start, [1, 31, 0], [1, 31, 0], [1, 5, 0])
    assert (found.stop_reason, found.samples, found.stages[-1].outcome) == ("exhausted", 70, "exhausted")


def test_classes_cannot_appear_or_vanish() -> None:
    with pytest.raises(CountsError, match="3 entries before, now 4"):
        drive(certify_optimal(NOISE, 0.25), [2, 30, 0], [2, 30, 0, 0])


RADII = (0.25, 0.5, 0.75)


def test_several_radii_are_proved_one_after_the_other() -> None:
    found = run(certify_optimal(NOISE, RADII), lambda n: np.array([0, n, 0]))
    assert (found.radius, found.p_lower, found.samples) == (0.75, NOISE.probability(0.75), 6_624)
    assert found.stages[0].certify_at == 33, "of the least radius"
    assert found.stages[3].certify_at == 129, "of the next one, after the first was proved at 64"
    assert [stage.outcome for stage in found.stages[:-1]] == ["continued"] * (len(found.stages) - 1)


def test_a_run_that_gives_up_a_larger_radius_keeps_the_smaller() -> None:
    found = verdict(certify_optimal(NOISE, RADII), [1, 31, 0], [1, 31, 0], [1, 31, 0], [9, 23, 0])
    assert (found.radius, found.stop_reason, found.stages[-1].outcome) == (0.25, "certified", "certified")
    assert found.stages[-1].count <= (found.stages[-1].abandon_at or 0)


def test_the_class_of_a_proved_radius_is_kept() -> None:
    start = certify_optimal(NOISE, (0.0, 0.75), alpha=0.3, max_samples=200, price=10**9)
    found = drive(start, [32, 0, 0], [0, 32, 0], [0, 32, 0])
    assert isinstance(found, Verdict)
    assert (found.top_class, found.radius) == (0, 0.0)


@pytest.mark.parametrize(
    ("radii", "match"),
    [
        ((), "from 1 to 32 numbers, got 0"),
        (tuple(range(33)), "got 33 of them"),
        ((0.5, 0.25), r"increase by at least 0\.000001"),
        ((0.25, 0.2500005), r"increase by at least 0\.000001"),
        ((0.25, math.nan), "nan"),
        ((-0.1, 0.25), r"-0\.1"),
    ],
)
def test_radii_outside_the_domain_are_named(radii: tuple[float, ...], match: str) -> None:
    with pytest.raises(DomainError, match=match):
        certify_optimal(NOISE, radii)
    with pytest.raises(ValidationError):
        Optimal(radii=radii)


def test_radii_that_are_one_millionth_apart_are_told_apart() -> None:
    procedure = Optimal(radii=(0.1, 0.100001))
    assert [procedure.unrounded(each, None) for each in (0.1, 0.100001)] == [0.1, 0.100001]


def test_a_certificate_cannot_make_a_verifier_work_for_minutes() -> None:
    """The product of samples and radii is bounded, not only each of them."""
    assert Optimal(max_samples=10_000_000, radii=(0.1, 0.2, 0.3, 0.4))
    with pytest.raises(ValidationError, match="at most 40,000,000, got 10,000,000 times 5"):
        Optimal(max_samples=10_000_000, radii=(0.1, 0.2, 0.3, 0.4, 0.5))
    for parameters in ({"max_samples": 10_000_001}, {"price": 0}, {"n0": -1}, {"price": 10**16}):
        with pytest.raises(ValidationError):
            Optimal(**parameters)  # type: ignore[arg-type]


def test_a_radius_and_radii_contradict_each_other() -> None:
    with pytest.raises(DomainError, match="radius must be left out"):
        Optimal(radii=RADII).start(NOISE, 0.25, alpha=0.001, beta=0.001)
    with pytest.raises(DomainError, match="needs a target radius"):
        Optimal().start(NOISE, None, alpha=0.001, beta=0.001)
    with pytest.raises(DomainError, match="whole number"):
        Optimal(radii=(0.5, 1.0)).start(Replacement(0.2, 16), None, alpha=0.001, beta=0.001)


def test_json_has_the_parameters_in_full() -> None:
    assert PROCEDURES.validate("optimal").model_dump(mode="json") == {
        "name": "optimal",
        "n0": 0,
        "max_samples": 131_100,
        "price": 750_000,
        "radii": None,
    }
    assert PROCEDURES.validate("largest").model_dump(mode="json") == {
        "name": "largest",
        "n0": 100,
        "max_samples": 100_000,
        "price": 3_000_000,
    }


# --- largest


def test_largest_ends_where_more_samples_are_not_worth_it() -> None:
    """For sigma .25 a run ends at 27,919 of 28,096 or fewer, with Clopper–Pearson at the full alpha."""
    rule = Largest().boundaries(NOISE, 0.0, alpha=0.001, beta=0.001)
    steps = rule.steps[: rule.looks.tolist().index(28_096) + 1].tolist()
    draws = [[0, n, 0] for n in steps[:-1]] + [[177, steps[-1] - 177, 0]]
    found = verdict(certify_largest(NOISE), [0, 100, 0], *draws)
    assert (found.samples, found.stages[-1].count, found.stop_reason) == (28_196, 27_919, "certified")
    assert found.p_lower == lower_bound(27_919, 28_096, 0.001)
    assert found.radius == NOISE.radius(found.p_lower) == pytest.approx(0.603393, abs=1e-6)
    assert [stage.p_lower for stage in found.stages[:-1]] == [None] * (len(steps) - 1)
    assert {stage.certify_at for stage in found.stages} == {None}


def test_largest_reaches_certify_s_radius_on_a_perfect_image() -> None:
    found = run(certify_largest(NOISE), lambda n: np.array([0, n, 0]))
    assert (found.samples, found.radius) == (100_100, pytest.approx(0.952864141, abs=1e-9))


def test_largest_gives_up_and_abstains() -> None:
    assert verdict(certify_largest(NOISE), [40, 60, 0], [28, 4, 0]).stop_reason == "abandoned"
    assert drive(certify_largest(NOISE), [40, 60, 0], [27, 5, 0]) == 32
    assert verdict(certify_largest(NOISE), [0, 0, 100]).stop_reason == "no-class"
    small = certify_largest(NOISE, max_samples=20)
    ended = verdict(small, [0, 100, 0], [5, 15, 0])
    assert (ended.stop_reason, ended.top_class, ended.p_lower) == ("exhausted", None, lower_bound(15, 20, 0.001))


def test_largest_ends_also_below_one_half() -> None:
    """Mutant killed: going on where nothing is proved, which would leave a hole in the proof."""
    rule = Largest(price=50_000, max_samples=1_000).boundaries(NOISE, 0.0, alpha=0.001, beta=0.001)
    steps = rule.steps[: rule.looks.tolist().index(864) + 1].tolist()
    half = [[n - n // 2, n // 2, 0] for n in steps]
    found = verdict(certify_largest(NOISE, price=50_000, max_samples=1_000), [40, 60, 0], *half)
    assert (found.stop_reason, found.samples, found.top_class) == ("exhausted", 964, None)


def test_a_radius_far_out_of_reach_is_never_certified() -> None:
    """There p0 rounds to almost 1, where a likelihood ratio overflows."""
    for n, radius in ((131_100, 2.0), (10_000, 1.9), (1_000_000, 1.5)):
        rule = Optimal(max_samples=n).boundaries(NOISE, radius, alpha=0.001, beta=0.001)
        assert not rule.feasible
        assert (rule.abandon[:-1] == rule.looks[:-1]).all()


def test_a_radius_is_no_part_of_the_question() -> None:
    assert not Largest().targeted
    assert not Optimal(radii=RADII).targeted
    assert Optimal().targeted


# --- plans


def test_a_plan_says_when_a_certificate_is_not_worth_its_samples() -> None:
    cheap = plan(Optimal(price=100), NOISE, 0.75)
    assert not cheap.feasible
    assert cheap.boundaries is not None
    assert cheap.boundaries.feasible
    assert "not worth its samples at this price" in cheap.reason
    assert plan(Optimal(), NOISE, 0.75).feasible
    assert "beyond the largest provable one" in plan(Optimal(max_samples=100), NOISE, 0.75).reason


def test_the_plan_of_several_radii_is_about_the_least() -> None:
    planned = plan(Optimal(radii=RADII), NOISE, 0.0)
    assert (planned.radius, planned.feasible, planned.fewest_samples) == (0.25, True, 64)
    assert planned.largest_radius == 0.75
    assert planned.expected(1.0).radius == pytest.approx(0.75)
    assert plan(Optimal(radii=(0.25, 0.5, 2.0)), NOISE, 0.0).largest_radius == 0.5, "2 is out of reach"
    with pytest.raises(DomainError):
        Optimal(radii=(2.0, 3.0)).start(NOISE, 0.25, alpha=0.001, beta=0.001)
    assert not plan(Optimal(radii=(1.5, 2.0)), NOISE, 0.0).feasible


def test_the_plan_of_largest_has_its_radius_and_samples() -> None:
    planned = plan(Largest(), NOISE, 0.0)
    assert (planned.feasible, planned.largest_radius) == (True, 0.952864)
    assert (planned.fewest_samples, planned.most_samples) == (13_156, 100_100)
    found = planned.expected(0.9772)
    assert found.radius == pytest.approx(0.485221292, abs=1e-9)
    assert found.samples == pytest.approx(21116.517027 + 100, abs=1e-5)


@pytest.mark.parametrize("radius", [0.0, 0.25, 0.5])
def test_largest_proves_a_radius_with_the_fewest_samples_and_with_no_fewer(radius: float) -> None:
    procedure = Largest(max_samples=4000, price=100_000)
    planned = plan(procedure, NOISE, radius)

    def proved(rate: float) -> Verdict:
        drawn = np.zeros(2)

        def sample(n: int) -> Any:
            counts = np.floor((drawn.sum() + n) * np.array([rate, 0.0])) - drawn * [1, 0]
            counts[1] = n - counts[0]
            drawn[:] += counts
            return counts.astype(int)

        return run(procedure.start(NOISE, None, alpha=0.001, beta=0.001), sample)

    found = [proved(rate) for rate in np.linspace(0.5, 1.0, 2001).tolist()]
    samples = [each.samples for each in found if each.top_class is not None and each.radius >= radius]
    assert planned.fewest_samples == min(samples) < max(samples) <= planned.most_samples


@pytest.mark.parametrize("n0", [0, 1])
@pytest.mark.parametrize(("radius", "alpha"), [(0.0, 0.001), (0.0, 0.5), (0.001, 0.01), (0.02, 0.3), (0.25, 0.001)])
def test_the_samples_that_are_needed_suffice_and_fewer_do_not(radius: float, alpha: float, n0: int) -> None:
    """Mutant killed: the need of a class that other samples chose, for the leader at radius 0."""
    needed = Optimal(n0=n0).samples_needed(NOISE, radius, alpha=alpha)
    assert needed is not None

    def feasible(n: int) -> bool:
        return plan(Optimal(max_samples=n, n0=n0, price=10**9), NOISE, radius, alpha=alpha).feasible

    assert feasible(needed)
    assert needed == 1 or not feasible(needed - 1)


@pytest.mark.parametrize(("n", "alpha"), [(2, 0.3), (5, 0.1), (12, 0.001), (40, 0.01)])
@pytest.mark.parametrize("n0", [0, 1])
def test_the_largest_radius_of_few_samples_counts_the_rival(n: int, alpha: float, n0: int) -> None:
    procedure = Optimal(max_samples=n, n0=n0, price=10**9)
    largest = procedure.largest_radius(NOISE, alpha=alpha)
    p0 = NOISE.probability(largest) if largest > 0 else 0.5
    needed = p0**n + ((1 - p0) ** n if n0 == 0 else 0)
    if largest > 0:
        assert needed == pytest.approx(alpha, rel=1e-6)
        assert plan(procedure, NOISE, largest * (1 - 1e-6), alpha=alpha).feasible
        assert not plan(procedure, NOISE, largest * (1 + 1e-4), alpha=alpha).feasible
    else:
        assert needed > alpha * (1 - 1e-6)


@pytest.mark.parametrize(
    "procedure",
    [
        Optimal(max_samples=600, price=20_000),
        Optimal(max_samples=600, price=20_000, radii=(0.1, 0.25)),
        Largest(max_samples=600),
    ],
    ids=lambda each: each.label,
)
@pytest.mark.parametrize("p_a", [0.75, 0.8413, 0.9])
def test_expected_samples_are_what_many_runs_average(procedure: Parameters, p_a: float) -> None:
    """Each case has 400 seeded runs; every comparison fails with probability below 1e-4."""
    planned = plan(procedure, NOISE, 0.25 if procedure.targeted else 0.0, alpha=0.05, beta=0.05)
    rng = np.random.default_rng(7)

    def sample(n: int) -> Any:  # the other classes have so few samples that none of them ever leads
        if n == procedure.n0:
            return np.array([n, *[0] * 41])
        return rng.multinomial(n, [p_a, *[(1 - p_a) / 40] * 40, 0.0])

    target = 0.25 if procedure.targeted else None
    verdicts = [run(procedure.start(NOISE, target, alpha=0.05, beta=0.05), sample) for _ in range(400)]
    outcome = planned.expected(p_a)
    samples = np.array([each.samples for each in verdicts])
    assert abs(samples.mean() - outcome.samples) <= 4 * samples.std() / math.sqrt(len(samples)) + 1e-3
    certified = sum(each.top_class is not None for each in verdicts)
    assert stats.binomtest(certified, len(verdicts), min(1.0, outcome.certify)).pvalue > 1e-4
    if outcome.radius is not None:
        radii = np.array([each.radius for each in verdicts])
        assert abs(radii.mean() - outcome.radius) <= 4 * radii.std() / math.sqrt(len(radii)) + 1e-3


# --- certificates and evaluation

CERTIFIED = [
    Optimal(),
    Optimal(radii=(0.1, 0.25, 0.5)),
    Optimal(n0=100),
    Optimal(n0=100, radii=(0.1, 0.25, 0.5)),
    Largest(price=100_000, max_samples=5_000),
]


@pytest.mark.parametrize("procedure", CERTIFIED)
def test_a_certificate_verifies_and_an_altered_one_does_not(procedure: Parameters) -> None:
    for p_a in (0.3, 0.86, 0.95):
        certificate = Certificate.from_json(certificate_of(procedure, p_a).to_json())
        assert verify(certificate).problems == ()
        assert not verify(altered(certificate, ["radius"], 0.9, signed=True))
        stage = len(certificate.stages) - 1
        assert not verify(altered(certificate, ["stages", stage, "abandon_at"], 10**6, signed=True))


def test_the_radius_of_a_curve_is_not_rounded_in_an_evaluation() -> None:
    exact = (0.1 + 1e-9, 0.25 + 3e-7)
    certificate = certificate_of(Optimal(radii=exact), 0.95)
    assert certificate.radius == 0.25
    assert proved_radius(certificate) == exact[1]
    judged = [Judged(certificate, 1), Judged(certificate_of(Optimal(radii=exact), 0.75), 1)]
    assert [certified_accuracy(judged, radius) for radius in exact] == [100.0, 50.0]
    report = Report("curve", ["a", "b"], judged)
    assert [(radius, share.value) for radius, share in report.curve] == [(exact[0], 100.0), (exact[1], 50.0)]
    assert "radii 0.100000001 0.2500003" in report.question
    alone: dict[str, Any] = {"name": "optimal"}
    assert "radii" not in Report("one", ["a"], [Judged(certificate_of(PROCEDURES.validate(alone), 0.95), 1)]).question
