"""Boundaries with a price have their golden numbers, which kill the mutants of the induction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import betaln

from smoothcert import optimal
from smoothcert.errors import DomainError
from smoothcert.optimal import leader_outcome
from smoothcert.sequential import SLACK, certify_boundary, looks_up_to, rounded_up, steps_of
from tests.support.optimal import ALPHA, GOLDEN, NOISE, Golden, ever, make, sha256


def test_the_looks_have_their_golden_values() -> None:
    assert [(len(looks), sha256(looks)) for looks in map(looks_up_to, (131_100, 10**6, 5_000))] == [
        (69, "79929b1f39dffe52a85073cc413835494518a64da0933673c4aa6d0ebb02d4f7"),
        (91, "adb4a53dcbe52fc6b878009100a1d48d91f6bc659457b2a5cc2fb230c13926c4"),
        (35, "efcac8d414d4511326ae93354050e5a9de62b09aa239fda2fdf0a3f2e4722eab"),
    ]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda g: f"{g.ratio:g}-{g.alpha:g}-{len(g.parameters)}")
def test_the_boundaries_have_their_golden_values(golden: Golden) -> None:
    """Mutants killed: END_SHARE .5, a uniform prior, a reward without w, the step of the wrong look (see below)."""
    rule = make(golden.ratio, alpha=golden.alpha, **golden.parameters)
    rows = list(zip(rule.looks.tolist(), rule.certify.tolist(), rule.abandon.tolist(), strict=True))
    assert set(golden.rows) <= set(rows)
    assert (sha256(rule.certify), sha256(rule.abandon)) == (golden.certify, golden.abandon)
    assert rule.worth == pytest.approx(golden.worth, rel=1e-7)
    spent = ever(rule, rounded_up(NOISE.probability(golden.ratio)))
    assert spent == pytest.approx(golden.spent, rel=1e-9)
    leading = golden.parameters.get("n0", 0) == 0
    p0 = rounded_up(NOISE.probability(golden.ratio))
    rho = optimal.rival_share(p0, rule.looks.tolist(), rule.certify.tolist()) if leading else 0.0
    assert spent * (1 + rho) == pytest.approx(golden.bound, rel=1e-9)
    assert spent * (1 + rho) <= golden.alpha


def test_small_boundaries_have_their_golden_values() -> None:
    rule = make(1.0, price=10_000, max_samples=1_000)
    looks = "32 64 96 128 160 192 224 256 288 320 352 416 480 544 608 672 768 864 960 1000"
    certify = "33 63 93 122 151 180 208 237 265 293 322 378 433 490 545 601 685 767 851 880"
    abandon = "23 49 76 104 131 159 187 215 242 270 299 355 411 467 523 580 666 752 839 -1"
    for found, golden in ((rule.looks, looks), (rule.certify, certify), (rule.abandon, abandon)):
        assert found.tolist() == [int(each) for each in golden.split()]
    assert ever(rule, rounded_up(NOISE.probability(1.0))) == pytest.approx(0.000922289216732, rel=1e-9)
    assert rule.worth == pytest.approx(2162.77584, rel=1e-8)


LARGE = {"price": 3_000_000, "max_samples": 1_000_000, "n0": 100}
P0 = math.nan
"""A stand-in for p0 in the table below."""


@pytest.mark.parametrize(
    ("ratio", "alpha", "parameters", "rows"),
    [
        (
            1.0,
            ALPHA,
            {},
            [
                (P0, 0.000954539083, 0.995550118, 33201.093125),
                (0.6, 6.36e-15, 1, 63.261536),
                (0.8, 2.39073787e-06, 0.999997609, 786.088292),
                (0.86, 0.999908174, 9.18256445e-05, 6591.061024),
                (0.95, 1, 7.67e-12, 155.326998),
                (0.985, 1, 0, 85.762587),
                (0.999, 1, 0, 65.984899),
                (0.9995, 1, 0, 65.008044),
                (1, 1, 0, 64),
            ],
        ),
        (
            3.0,
            ALPHA,
            {},
            [
                (P0, 0.000893165114, 0.996633282, 31396.981124),
                (0.6, 0, 1, 32.000057),
                (0.8, 0, 1, 32.230431),
                (0.86, 0, 1, 33.701115),
                (0.95, 0, 1, 64.836775),
                (0.985, 0, 1, 247.369253),
                (0.999, 0.562958336, 0.288637731, 94490.245350),
                (0.9995, 0.999409436, 0.000590563871, 22797.626731),
                (1, 1, 0, 6624),
            ],
        ),
        (
            2.0,
            1e-4,
            LARGE,
            [
                (P0, 9.09510442e-05, 0.999780057, 154555.071029),
                (0.6, 0, 1, 32.292642),
                (0.8, 0, 1, 52.087384),
                (0.86, 0, 1, 81.380374),
                (0.95, 7.97e-13, 1, 571.604195),
                (0.985, 0.999997226, 2.77397377e-06, 7434.119004),
                (0.999, 1, 0, 616.653031),
                (0.9995, 1, 0, 579.435798),
                (1, 1, 0, 544),
            ],
        ),
    ],
)
def test_a_fixed_class_fares_as_the_golden_table_says(
    ratio: float, alpha: float, parameters: dict[str, int], rows: list[tuple[float, ...]]
) -> None:
    rule = make(ratio, alpha=alpha, **parameters)
    for p, certify, abandon, samples in rows:
        found = rule.outcome(rounded_up(NOISE.probability(ratio)) if math.isnan(p) else p)
        for share, golden in ((found.certify, certify), (found.abandon, abandon)):
            digits = {"rel": 2e-3 if golden < 1e-9 else 1e-8, "abs": 0 if golden else 1e-14}  # as in the table
            assert share == pytest.approx(golden, **digits)
        assert found.samples == pytest.approx(samples, abs=1e-6)


def test_the_leader_of_two_classes_fares_as_the_golden_numbers_say() -> None:
    found = leader_outcome(make(0.0), 0.5)
    assert found.certify == pytest.approx(0.00048455675, rel=1e-8)
    assert found.abandon == pytest.approx(0.994576214, rel=1e-8)
    assert found.samples == pytest.approx(51922.568972, abs=1e-5)
    assert leader_outcome(make(1.0), 0.5).samples == pytest.approx(51.623431, abs=1e-6)


# --- mutants of the induction, which the golden numbers kill


def uniform(n: int, begin: int, end: int, p0: float) -> np.ndarray:
    """The mutant uses the likelihood ratio of a uniform prior."""
    k = np.arange(begin, end, dtype=float)
    return np.exp(betaln(k + 1, n - k + 1) - k * math.log(p0) - (n - k) * math.log1p(-p0))


def test_another_prior_end_share_or_step_would_move_the_golden_boundaries(monkeypatch: pytest.MonkeyPatch) -> None:
    p0, looks, golden = rounded_up(NOISE.probability(1.0)), looks_up_to(131_100), GOLDEN[0]
    certify = make(1.0).certify.tolist()

    def abandon() -> str:
        return sha256(optimal.abandon_boundary(p0, looks, certify, 750_000)[0])

    assert abandon() == golden.abandon
    with monkeypatch.context() as mutant:
        mutant.setattr(optimal, "likelihood_ratio", uniform)
        assert abandon() != golden.abandon
    with monkeypatch.context() as mutant:  # the mutant takes the step up to a look instead of the one after it
        mutant.setattr(optimal, "steps_of", lambda looks: [*steps_of(looks)[1:], 1])
        assert abandon() != golden.abandon
    with (
        monkeypatch.context() as mutant
    ):  # for the mutant, a certificate is worth the same whatever the prior says of its count
        values = optimal._values
        mutant.setattr(optimal, "_values", lambda *args: np.maximum(values(*args), -750_000.0))
        assert abandon() != golden.abandon
    mutant_certify = certify_boundary(p0, looks, ALPHA * (1 - SLACK), end_share=0.5).counts
    assert sha256(mutant_certify) != golden.certify


@pytest.mark.parametrize(
    ("parameters", "alpha", "match"),
    [
        ({}, 0.6, r"alpha must be at most 1/2 .*0\.6"),
        ({"n0": 5}, 0.0, r"0\.0"),
        ({"max_samples": 10**7 + 1}, 0.1, "10000001"),
    ],
)
def test_questions_outside_the_domain_are_named(parameters: dict[str, int], alpha: float, match: str) -> None:
    with pytest.raises((DomainError, ValueError), match=match):
        make(1.0, alpha=alpha, **parameters)
    assert make(1.0, alpha=0.6, n0=5, max_samples=50).feasible


def test_the_leader_needs_a_p0_of_one_half() -> None:
    with pytest.raises(DomainError, match=r"p0 must be at least 1/2 .*0\.4"):
        optimal.boundaries(0.4, alpha=0.1, price=100, max_samples=100, leading=True)
    assert optimal.boundaries(0.4, alpha=0.1, price=100, max_samples=100, leading=False).feasible
