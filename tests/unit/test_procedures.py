"""The procedures, driven by known counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import FrozenInstanceError
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.choices import ProcedureList
from smoothcert.errors import CountsError, DomainError
from smoothcert.noise import Gaussian
from smoothcert.notebook import sentence
from smoothcert.procedures import (
    PROCEDURES,
    Adaptive,
    Fixed,
    Largest,
    Optimal,
    Parameters,
    Predict,
    Procedure,
    Sequential,
    certify,
    certify_adaptive,
    certify_sequential,
    predict,
    run,
)
from smoothcert.procedures.prediction import two_sided_p_value
from smoothcert.verdict import Verdict, floor_radius
from smoothcert.verification import verify
from tests.support.certificates import altered, certificate_of

NOISE = Gaussian(0.25)


def script(*draws: Iterable[int]) -> Callable[[int], np.ndarray]:
    """A sampler that gives these counts, one after the other."""
    coming = iter(draws)
    return lambda _: np.array(list(next(coming)))


def of(count: int, n: int) -> list[int]:
    """Counts with `count` of n for class 1, the rest for class 0, and none without a class."""
    return [n - count, count, 0]


# --- Certify


def test_certify_proves_the_radius_of_its_lower_bound() -> None:
    verdict = run(certify(NOISE, n=1000), script(of(60, 100), of(990, 1000)))
    assert (verdict.top_class, verdict.samples, verdict.stop_reason) == (1, 1100, "certified")
    assert verdict.p_lower == lower_bound(990, 1000, 0.001)
    assert verdict.radius == 0.25 * stats.norm.ppf(verdict.p_lower)
    assert verdict.selection == (40, 60, 0)


def test_certify_has_the_paper_s_defaults() -> None:
    procedure = certify(NOISE)
    assert next(procedure) == 100
    assert procedure.send(np.array([0, 100, 0])) == 100_000
    verdict = end_of(procedure, [0, 100_000, 0])
    assert floor_radius(verdict.radius) == 0.952864


def test_certify_takes_the_class_from_the_selection_alone() -> None:
    """Mutant killed: choosing the class on the estimation samples, which would certify class 1 here."""
    verdict = run(certify(NOISE, n=1000), script(of(40, 100), of(990, 1000)))
    assert verdict.top_class is None
    assert verdict.stages[0].count == 10


@pytest.mark.parametrize("count", [500, 549])
def test_certify_abstains_unless_the_bound_exceeds_one_half(count: int) -> None:
    verdict = run(certify(NOISE, n=1000), script(of(60, 100), of(count, 1000)))
    assert verdict.top_class is None
    assert (verdict.radius, verdict.stop_reason) == (0.0, "exhausted")


def test_samples_without_a_class_are_neither_the_class_nor_dropped() -> None:
    verdict = run(certify(NOISE, n=1000), script([0, 60, 40], [0, 900, 100]))
    assert verdict.p_lower == lower_bound(900, 1000, 0.001)


@pytest.mark.parametrize("procedure", [Fixed(), Adaptive(), Sequential()])
def test_a_classifier_that_never_answers_is_left_at_once(procedure: Any) -> None:
    verdict = run(procedure.start(NOISE, 0.25, alpha=0.001, beta=0.001), script([0, 0, 100]))
    assert (verdict.top_class, verdict.stop_reason, verdict.samples) == (None, "no-class", 100)


# --- CertifyAdp


@pytest.mark.parametrize(
    ("stages", "beta", "certify_at", "abandon_below"),
    [
        ((1000, 10_000, 125_000), 0.0001, (880, 8538, 105_607), (795, 8270)),
        ((100, 1000, 10_000, 120_000), 0.001, (96, 881, 8540, 101_402), (71, 801, 8288)),
    ],
)
def test_adaptive_stages_turn_at_their_golden_counts(
    stages: tuple[int, ...], beta: float, certify_at: tuple[int, ...], abandon_below: tuple[int, ...]
) -> None:
    undecided = [(u + low) // 2 for u, low in zip(certify_at, abandon_below, strict=False)]

    def after(*counts: int) -> int | Verdict:
        return drive(certify_adaptive(NOISE, 0.25, stages=stages, beta=beta), [100, *counts])

    def reason(*counts: int) -> str:
        verdict = after(*counts)
        assert isinstance(verdict, Verdict)
        return verdict.stop_reason

    for i, least in enumerate(certify_at):
        assert reason(*undecided[:i], least) == "certified"
    assert reason(*undecided, certify_at[-1] - 1) == "exhausted"
    for i, least in enumerate(abandon_below):
        assert reason(*undecided[:i], least - 1) == "abandoned"
        assert after(*undecided[:i], least) == stages[i + 1]
        assert after(*undecided[:i], certify_at[i] - 1) == stages[i + 1]


def drive(procedure: Procedure, counts: list[int]) -> int | Verdict:
    """The next request of the procedure, or its verdict, after these counts of class 1."""
    wanted = next(procedure)
    for count in counts:
        try:
            wanted = procedure.send(np.array(of(count, wanted)))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
    return wanted


def end_of(procedure: Procedure, counts: list[int]) -> Verdict:
    with pytest.raises(StopIteration) as end:
        procedure.send(np.array(counts))
    return end.value.value  # type: ignore[no-any-return]


def test_adaptive_uses_fresh_samples_and_its_share_of_alpha_and_beta() -> None:
    verdict = run(certify_adaptive(NOISE, 0.25, stages=(100, 1000)), script(of(90, 100), of(90, 100), of(900, 1000)))
    first, second = verdict.stages
    assert (first.n, first.count, first.outcome) == (100, 90, "continued")
    assert first.p_lower == lower_bound(90, 100, 0.0005)
    assert first.p_upper == upper_bound(90, 100, 0.001)
    assert (second.n, second.count, second.outcome) == (1000, 900, "certified")
    assert verdict.p_lower == second.p_lower == lower_bound(900, 1000, 0.0005)
    assert verdict.radius == NOISE.radius(verdict.p_lower) > 0.25
    assert verdict.samples == 1200


def test_kept_samples_are_pooled() -> None:
    draws = script(of(90, 100), of(90, 100), of(900, 1000))
    verdict = run(certify_adaptive(NOISE, 0.25, stages=(100, 1000), keep_samples=True), draws)
    assert (verdict.stages[1].n, verdict.stages[1].count) == (1100, 990)
    assert verdict.stages[1].counts == (100, 900, 0)
    assert verdict.p_lower == lower_bound(990, 1100, 0.0005)


def test_one_stage_has_no_upper_test() -> None:
    verdict = run(certify_adaptive(NOISE, 0.25, stages=(1000,)), script(of(100, 100), of(0, 1000)))
    assert (verdict.stop_reason, verdict.stages[0].p_upper) == ("exhausted", None)


def test_the_last_stage_has_no_upper_test() -> None:
    draws = script(of(90, 100), of(90, 100), of(0, 1000))
    verdict = run(certify_adaptive(NOISE, 0.25, stages=(100, 1000)), draws)
    assert (verdict.stop_reason, verdict.stages[-1].p_upper) == ("exhausted", None)


@given(st.integers(0, 100), st.integers(0, 1000), st.integers(0, 5000), st.booleans(), st.floats(0, 0.9))
def test_adaptive_decides_by_its_integer_boundaries(a: int, b: int, c: int, kept: bool, radius: float) -> None:
    """The bounds of the algorithm and the integer boundaries of the plan are two ways to the same decision."""
    spec = Adaptive(stages=(100, 1000, 5000), keep_samples=kept)
    limits = spec.boundaries(NOISE, radius, alpha=0.01, beta=0.02)
    verdict = drive(spec.start(NOISE, radius, alpha=0.01, beta=0.02), [100, a, b, c])
    total = 0
    for count, u, low in zip([a, b, c], limits.certify, limits.abandon, strict=True):
        total = total + count if kept else count
        if total >= u or total <= low:
            break
    expected = "certified" if total >= u else "abandoned" if total <= low else "exhausted"
    assert isinstance(verdict, Verdict)
    assert verdict.stop_reason == expected


# --- sequential


def test_sequential_certifies_at_its_boundary_and_claims_no_more_than_the_target() -> None:
    verdict = run(certify_sequential(NOISE, 0.25), script(of(100, 100), of(32, 32), of(32, 32)))
    assert (verdict.top_class, verdict.radius, verdict.samples) == (1, 0.25, 164)
    assert verdict.p_lower == NOISE.probability(0.25)
    assert [(s.n, s.count, s.certify_at, s.abandon_at) for s in verdict.stages] == [(32, 32, 33, 17), (64, 64, 64, 41)]


@pytest.mark.parametrize(("abandon", "count"), [("strict", 17), ("lost-certificate", 16)])
def test_sequential_abandons_at_its_boundary(abandon: Any, count: int) -> None:
    assert drive(certify_sequential(NOISE, 0.25, abandon=abandon), [100, count + 1]) == 32
    verdict = drive(certify_sequential(NOISE, 0.25, abandon=abandon), [100, count])
    assert isinstance(verdict, Verdict)
    assert (verdict.stop_reason, verdict.top_class, verdict.radius, verdict.p_lower) == ("abandoned", None, 0.0, None)


def test_sequential_abstains_after_its_last_look() -> None:
    verdict = drive(certify_sequential(NOISE, 0.25, max_samples=40), [100, 28, 7])
    assert isinstance(verdict, Verdict)
    assert (verdict.stop_reason, verdict.samples, verdict.stages[-1].outcome) == ("exhausted", 140, "exhausted")


def test_sequential_asks_for_its_looks_and_nothing_between() -> None:
    """Mutant killed: peeking between looks, which would ask for other steps."""
    procedure = certify_sequential(NOISE, 0.25)
    looks = Sequential().boundaries(NOISE, 0.25, alpha=0.001, beta=0.001)
    wanted = [next(procedure)]
    count = 0
    wanted.append(procedure.send(np.array(of(100, 100))))
    for look, u in zip(looks.looks[:-1].tolist(), looks.certify.tolist(), strict=False):
        goal = min(u - 1, look)
        wanted.append(procedure.send(np.array(of(goal - count, wanted[-1]))))
        count = goal
    assert wanted[1:] == looks.steps.tolist()


# --- what a procedure says of itself


EVERY = [
    Fixed(),
    Fixed(n=10),
    Adaptive(),
    Adaptive(stages=(7,)),
    Adaptive(stages=(10, 20, 30), keep_samples=True),
    Sequential(max_samples=1),
    Sequential(max_samples=1000),
    Sequential(max_samples=3000, abandon="lost-certificate"),
    Optimal(max_samples=3000),
    Optimal(max_samples=2000, n0=10, radii=(0.1, 0.2, 0.3)),
    Largest(max_samples=1),
    Largest(max_samples=2000, price=100_000),
]


@pytest.mark.parametrize("procedure", EVERY, ids=repr)
def test_the_looks_are_counted_without_the_boundaries(procedure: Parameters) -> None:
    limits = procedure.boundaries(NOISE, 0.25, alpha=0.001, beta=0.001)
    assert procedure.look_count == len(limits.looks)
    assert procedure.pooled == limits.pooled


@pytest.mark.parametrize("procedure", EVERY, ids=repr)
def test_the_intervals_of_all_looks_share_alpha(procedure: Parameters) -> None:
    shares = {"fixed": 1, "adaptive": procedure.look_count}
    share = shares.get(procedure.name, 2 * procedure.look_count)
    assert procedure.interval_alpha(0.001) == pytest.approx(0.001 / share, rel=1e-15)


def test_every_choice_of_a_form_is_a_procedure_of_its_own() -> None:
    cards = ProcedureList.known().data
    labels = [variant.label for card in cards for variant in card.variants]
    sequential = ["sequential, strict", "sequential, lost-certificate"]
    assert labels == [
        "optimal",
        *sequential,
        "adaptive",
        "adaptive, kept",
        "fixed",
        "largest",
        "hierarchy",
        "exact",
        "predict",
    ]
    for card in cards:
        assert card.title
        assert card.summary.endswith(".")
        for variant in card.variants:
            if card.budget is None:
                assert variant.parameters == {}
                continue
            budget = tuple(int(each) for each in card.budget.default.split())
            fields = {"name": card.name, **variant.parameters}
            chosen = PROCEDURES.validate({**fields, card.budget.field: budget if card.budget.several else budget[0]})
            assert chosen == PROCEDURES.validate(fields), "the default of the input is that of the field"
            assert (chosen.label, chosen.abandoning) == (variant.label, variant.abandoning)
            assert (card.targeted, card.budget.field) == (chosen.targeted, chosen.budget)


class Wordless(Fixed):
    """Says of itself what it must, and no more."""

    title: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    name: Literal["wordless"] = "wordless"  # type: ignore[assignment]


class Needy(Fixed):
    name: Literal["needy"] = "needy"  # type: ignore[assignment]
    help: str


def test_a_program_s_own_procedure_is_offered_with_the_words_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: dict[str, type[Parameters]] = {**dict(zip(PROCEDURES.names, PROCEDURES, strict=True))}
    monkeypatch.setattr(PROCEDURES, "_kinds", {**kinds, "wordless": Wordless, "needy": Needy})
    names = [card.name for card in ProcedureList.known().data]
    known = ["optimal", "sequential", "adaptive", "fixed", "largest", "hierarchy", "exact", "predict"]
    assert names == [*known, "wordless"], "one that needs a parameter cannot be chosen"
    card = ProcedureList.known().data[-1]
    assert (card.title, card.summary) == ("Wordless", "Says of itself what it must, and no more.")
    assert (card.budget.help, card.budget.default) == ("The samples that bound p_A.", "100000")


# --- predict


def test_predict_answers_where_two_classes_are_told_apart() -> None:
    assert run(predict(), script([300, 690, 10, 0])).top_class == 1
    assert run(predict(), script([490, 500, 10, 0])).stop_reason == "undecided"
    assert run(predict(n=10), script([0, 0, 10])).stop_reason == "no-class"
    assert run(predict(n=20), script([20, 0])).top_class == 0
    assert run(predict(n=100), script([45, 5, 50])).stop_reason == "undecided", "no class is a rival, too"


@pytest.mark.parametrize("n", [1, 10, 11, 12, 1000])
def test_the_boundary_of_predict_is_its_decision_against_one_rival(n: int) -> None:
    procedure = Predict(n=n)
    boundaries = procedure.boundaries(NOISE, 0.0, alpha=0.001, beta=0.001)
    decided = [count for count in range(n + 1) if run(predict(n=n), script(of(count, n))).top_class == 1]
    assert boundaries.certify.tolist() == [min(decided, default=n + 1)]
    assert boundaries.feasible == bool(decided) == (n >= procedure.samples_needed(NOISE, 0.0, alpha=0.001))


def test_a_prediction_is_a_certificate_of_radius_zero_that_verifies() -> None:
    certificate = certificate_of(Predict(), 0.7)
    assert (certificate.decision, certificate.class_index, certificate.radius) == ("certified", 1, 0.0)
    assert verify(certificate)
    assert "at the image itself is 'ship'" in sentence(certificate)
    for path, value in ((["class_index"], 0), (["radius"], 0.1), (["stages", 0, "count"], 1)):
        assert not verify(altered(certificate, path, value, signed=True))
    assert certificate_of(Predict(), 0.34).stop_reason == "undecided"


@given(st.integers(0, 500), st.integers(0, 500))
def test_the_p_value_of_predict_is_the_two_sided_binomial_test(a: int, b: int) -> None:
    first, second = max(a, b), min(a, b)
    if first:
        expected = stats.binomtest(first, first + second, 0.5).pvalue
        assert two_sided_p_value(first, first + second) == pytest.approx(expected, rel=1e-6)


# --- verdicts and bad input


@pytest.mark.parametrize("kind", list(PROCEDURES), ids=lambda kind: kind.__name__)
def test_a_keyword_that_a_procedure_has_not_is_told_with_the_nearest_one(kind: type[Parameters]) -> None:
    """The nearest is its last field; Exact has no field of its own."""
    last = [*kind.model_fields][-1]
    with pytest.raises(TypeError, match=rf"there is no keyword '{last}_', did you mean {last}\?; there are name, n0"):
        kind(**{f"{last}_": 1})


def test_a_procedure_runs_once() -> None:
    procedure = certify(NOISE, n=10)
    run(procedure, script(of(60, 100), of(9, 10)))
    with pytest.raises(DomainError, match="has run already"):
        run(procedure, script(of(60, 100), of(9, 10)))


def test_large_counts_are_told_apart_too() -> None:
    assert two_sided_p_value(2 * 10**9, 3 * 10**9) == 0.0
    assert two_sided_p_value(15 * 10**8, 3 * 10**9) == pytest.approx(1.0, abs=1e-4)


def test_a_verdict_cannot_be_altered() -> None:
    verdict = run(certify(NOISE, n=10), script(of(60, 100), of(9, 10)))
    with pytest.raises(FrozenInstanceError):
        verdict.radius = 1.0  # type: ignore[misc]


@given(st.floats(0, 100))
def test_a_reported_radius_is_never_more_than_was_proved(radius: float) -> None:
    floored = floor_radius(radius)
    assert floored <= radius < floored + 1.000001e-6
    assert floor_radius(floored) == floored


def test_round_radii_stay_round() -> None:
    assert [floor_radius(r) for r in (0.3, 0.25, 0.1, 1.7, 0.0)] == [0.3, 0.25, 0.1, 1.7, 0.0]
    assert floor_radius(0.9528641408474786) == 0.952864
    assert floor_radius(2.5e30) == 2.5e30


@pytest.mark.parametrize(
    ("counts", "seen"),
    [
        ([50, 49, 0], "99"),
        ([50, 51, 0], "101"),
        ([110, -10, 0], "-10"),
        ([50.0, 50.0, 0.0], "float"),
        ([math.nan, 50.0, 50.0], "nan"),
        ([100], r"\(1,\)"),
        ([[50], [50]], r"\(2, 1\)"),
        ([], r"\(0,\)"),
    ],
)
@pytest.mark.parametrize(
    "procedure", [certify, lambda n: certify_adaptive(n, 0.25), lambda n: certify_sequential(n, 0.25)]
)
def test_counts_that_were_not_asked_for_end_in_an_error(procedure: Any, counts: Any, seen: str) -> None:
    with pytest.raises(CountsError, match=seen):
        run(procedure(NOISE), lambda _: np.array(counts))


def test_the_number_of_classes_must_not_change() -> None:
    with pytest.raises(CountsError, match="3 entries before, now 4"):
        run(certify(NOISE, n=10), script(of(60, 100), [0, 5, 5, 0]))


@pytest.mark.parametrize(
    ("start", "seen"),
    [
        (lambda: certify(NOISE, n=0), "0"),
        (lambda: certify(NOISE, n0=0), "0"),
        (lambda: certify(NOISE, n=10.5), "10.5"),  # type: ignore[arg-type]
        (lambda: certify(NOISE, alpha=0.0), "0.0"),
        (lambda: certify(NOISE, alpha=math.nan), "nan"),
        (lambda: certify_adaptive(NOISE, -0.25), "-0.25"),
        (lambda: certify_adaptive(NOISE, math.nan), "nan"),
        (lambda: certify_adaptive(NOISE, 0.25, stages=()), "none"),
        (lambda: certify_adaptive(NOISE, 0.25, stages=(100, 100)), r"\[100, 100\]"),
        (lambda: certify_adaptive(NOISE, 0.25, stages=(1000, 100)), r"\[1000, 100\]"),
        (lambda: certify_adaptive(NOISE, 0.25, stages=(0, 100)), "0"),
        (lambda: certify_adaptive(NOISE, 0.25, stages=range(1, 100)), "99"),
        (lambda: certify_adaptive(NOISE, None), "None"),  # type: ignore[arg-type]
        (lambda: certify_adaptive(NOISE, 0.25, alpha="x"), "'x'"),  # type: ignore[arg-type]
        (lambda: certify(NOISE, alpha=1e-200), "1e-200"),
        (lambda: certify(NOISE, n=2**60), str(2**60)),
        (lambda: certify_sequential(NOISE, 0.25, max_samples=10**8), "100000000"),
        (lambda: certify_adaptive(NOISE, 0.25, alpha=1.0), "1.0"),
        (lambda: certify_adaptive(NOISE, 0.25, beta=0.0), "0.0"),
        (lambda: certify_adaptive(NOISE, 0.25, alpha=2e-20), "divided by the stages"),
        (lambda: certify_adaptive(NOISE, 0.25, beta=2e-20), "divided by the stages"),
        (lambda: certify_sequential(NOISE, -1.0), "-1.0"),
        (lambda: certify_sequential(NOISE, 0.25, max_samples=0), "0"),
        (lambda: certify_sequential(NOISE, 0.25, alpha=2.0), "2.0"),
        (lambda: certify_sequential(NOISE, 0.25, beta=math.nan), "nan"),
        (lambda: certify_sequential(NOISE, 0.25, abandon="soon"), "soon"),  # type: ignore[arg-type]
        (lambda: certify_sequential(NOISE, 100.0), "1.0"),
        (lambda: predict(n=0), "0"),
        (lambda: predict(alpha=math.nan), "nan"),
        (lambda: Adaptive().start(NOISE, None, alpha=0.001, beta=0.001), "radius"),
        (lambda: Sequential().start(NOISE, None, alpha=0.001, beta=0.001), "radius"),
    ],
)
def test_bad_parameters_are_refused_before_any_sample(start: Callable[[], Procedure], seen: str) -> None:
    with pytest.raises(DomainError, match=seen):
        start()
