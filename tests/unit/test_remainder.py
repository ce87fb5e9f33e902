"""What the samples of an abstention still prove."""

from __future__ import annotations

import numpy as np
import pytest

from smoothcert import remainder as module
from smoothcert.bounds import lower_bound
from smoothcert.certificate import Certificate
from smoothcert.noise import Gaussian, Replacement
from smoothcert.procedures import Adaptive, AnyProcedure, Fixed, Optimal, Sequential, run
from smoothcert.question import Question
from smoothcert.remainder import remainder

NOISE = Gaussian(0.25)
RADIUS = 0.25
"""The radius to prove, which needs p_A >= .841."""
ALPHA = 0.1
"""A large alpha, so that errors are frequent enough to be counted."""
RUNS = 300
PROCEDURES = [Adaptive(stages=(40, 80, 160)), Sequential(max_samples=300), Optimal(max_samples=300, n0=0)]


def answered(
    procedure: AnyProcedure, p: tuple[float, ...], rng: np.random.Generator, alpha: float, radius: float = RADIUS
) -> Certificate:
    """A certificate or an abstention for an image whose classes have these probabilities."""
    target = radius if procedure.targeted else None
    question = Question(NOISE, procedure, target, alpha, 0.1)
    verdict = run(question.start(), lambda n: np.append(rng.multinomial(n, p), 0))
    return Certificate.of(
        verdict, procedure=procedure, noise=NOISE, target_radius=target, alpha=alpha, beta=question.beta
    )


def errors(procedure: AnyProcedure, p: tuple[float, ...]) -> float:
    """How often a certificate, or otherwise what remains, claims more than is true."""
    rng, truth = np.random.default_rng(7), dict(enumerate(p))
    wrong = 0
    for _ in range(RUNS):
        certificate = answered(procedure, p, rng, ALPHA)
        left = remainder(certificate)
        radius, of_class = (
            (certificate.radius, certificate.class_index) if left is None else (left.radius, left.class_index)
        )
        wrong += radius > 0 and NOISE.probability(radius) > truth[of_class or 0] + 1e-6
    return wrong / RUNS


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda each: each.name)
@pytest.mark.parametrize("p", [(0.8, 0.2), (0.55, 0.45), (0.5, 0.5)])
def test_it_is_false_at_most_twice_as_often_as_alpha_allows(procedure: AnyProcedure, p: tuple[float, ...]) -> None:
    assert errors(procedure, p) <= 2 * ALPHA


def test_the_mutant_that_trusts_the_share_itself_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant takes the share of the count for a lower bound of p_A."""
    monkeypatch.setattr(module, "lower_bound", lambda count, n, _: count / n)
    assert errors(PROCEDURES[0], (0.8, 0.2)) > 2 * ALPHA


def test_it_is_the_largest_lower_end_of_the_looks() -> None:
    procedure = Adaptive(stages=(200, 400))
    certificate = answered(procedure, (0.8, 0.2), np.random.default_rng(1), 0.001)
    found = remainder(certificate)
    assert found is not None
    bounds = [lower_bound(stage.count, stage.n, 0.001 / 2) for stage in certificate.stages]
    assert found.radius == pytest.approx(NOISE.radius(max(bounds)), abs=1e-6)
    assert (found.class_index, found.alpha) == (0, 0.002)
    assert found.attempt is not None
    assert 0 < found.attempt <= found.radius


def test_where_no_samples_chose_the_class_each_look_has_half_of_its_share() -> None:
    procedure = Optimal(max_samples=1000, n0=0)
    certificate = answered(procedure, (0.8, 0.2), np.random.default_rng(3), 0.001)
    found = remainder(certificate)
    assert found is not None
    share = procedure.interval_alpha(0.001) / 2
    bounds = [lower_bound(stage.count, stage.n, share) for stage in certificate.stages]
    assert found.radius == pytest.approx(max(0.0, NOISE.radius(max(bounds))), abs=1e-6)


def proved_again(procedure: AnyProcedure, p: float, *, proved: bool = False) -> float:
    """How often another run proves the radius that an abstention offers, or what its samples have proved."""
    rng, hits = np.random.default_rng(5), []
    while len(hits) < 60:
        left = remainder(answered(procedure, (p, 1 - p), rng, 0.001))
        if left and (radius := left.radius if proved else left.attempt):
            hits.append(answered(procedure, (p, 1 - p), rng, 0.001, radius).decision == "certified")
    return sum(hits) / len(hits)


@pytest.mark.parametrize(
    "procedure",
    [Adaptive(stages=(400, 800)), Sequential(max_samples=1000), Optimal(max_samples=2000)],
    ids=lambda each: each.name,
)
def test_the_radius_that_is_offered_is_proved_by_another_run(procedure: AnyProcedure) -> None:
    assert proved_again(procedure, 0.75) > 0.95


def test_the_mutant_that_offers_what_these_samples_prove_often_fails() -> None:
    assert proved_again(Adaptive(stages=(400,)), 0.75, proved=True) < 0.8


def test_no_radius_is_offered_where_the_procedure_is_not_asked_for_one() -> None:
    found = remainder(answered(Fixed(n=100), (0.6, 0.4), np.random.default_rng(1), 0.001))
    assert found is not None
    assert (found.radius, found.attempt) == (0.0, None)


def test_a_certificate_has_no_remainder() -> None:
    assert remainder(answered(Adaptive(stages=(50, 200)), (1.0, 0.0), np.random.default_rng(1), 0.001)) is None


def test_an_even_count_proves_nothing_and_asks_for_nothing() -> None:
    even = Certificate.of(
        run(
            Question(NOISE, Adaptive(stages=(50, 200)), RADIUS).start(),
            lambda n: np.array([n // 2, n - n // 2, 0]),
        ),
        procedure=Adaptive(stages=(50, 200)),
        noise=NOISE,
        target_radius=RADIUS,
        alpha=0.001,
        beta=0.001,
    )
    found = remainder(even)
    assert found is not None
    assert (found.radius, found.attempt) == (0.0, None)


def test_a_radius_to_ask_for_is_one_that_the_noise_can_have() -> None:
    noise = Replacement(0.8, 256)
    question = Question(noise, Adaptive(stages=(100, 400)), 3.0)
    rng = np.random.default_rng(2)
    verdict = run(question.start(), lambda n: np.append(rng.multinomial(n, (0.75, 0.25)), 0))
    certificate = Certificate.of(
        verdict, procedure=question.procedure, noise=noise, target_radius=3.0, alpha=0.001, beta=0.001
    )
    found = remainder(certificate)
    assert found is not None
    assert found.attempt is None or found.attempt == int(found.attempt)
