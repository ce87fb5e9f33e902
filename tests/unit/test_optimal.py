"""Boundaries with a price: golden numbers, enumeration of every path, and the mutants that these kill."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import betaln

from smoothcert import optimal
from smoothcert.binomial import NOTHING_DRAWN
from smoothcert.boundaries import Boundaries, Outcome
from smoothcert.bounds import lower_bound
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian
from smoothcert.optimal import CurveOutcome, leader_outcome
from smoothcert.procedures import Optimal
from smoothcert.sequential import SLACK, certify_boundary, certify_shares, looks_up_to, rounded_up, steps_of

NOISE = Gaussian(1.0)
ALPHA = 0.001


def sha256(numbers: Iterable[int]) -> str:
    return hashlib.sha256(",".join(map(str, numbers)).encode()).hexdigest()


def make(ratio: float, *, alpha: float = ALPHA, **parameters: int) -> Boundaries:
    return Optimal(**parameters).boundaries(NOISE, ratio, alpha=alpha, beta=0.5)


def ever(rule: Boundaries, p: float) -> float:
    """f(p): the chance that the count of a class of probability p ever reaches U, where nothing is abandoned."""
    return Boundaries(rule.looks, rule.certify, np.full(len(rule.looks), -1)).outcome(p).certify


# --- golden numbers


@dataclass(frozen=True)
class Golden:
    ratio: float
    alpha: float
    parameters: dict[str, int]
    rows: list[tuple[int, int, int]]
    certify: str
    abandon: str
    spent: float
    bound: float
    worth: float


GOLDEN = [
    Golden(
        1.0,
        ALPHA,
        {},
        [
            *[(32, 33, 17), (64, 64, 41), (96, 93, 66), (128, 122, 91), (160, 152, 117)],
            *[(107_072, 90_575, 90_346), (117_792, 99_619, 99_422), (131_100, 110_748, -1)],
        ],
        "53f377db157306042cc714712264c6b3d49a11efed54d9655316e5921be6df1a",
        "899362794f4ede18520b0157b7c8b0dcc1f6cf9ca80bd67f5c39d1c18e12409f",
        0.000997712751341,
        0.000997712751341,
        192_349.709,
    ),
    Golden(
        2.0,
        ALPHA,
        {},
        [
            *[(32, 33, 26), (64, 65, 56), (96, 97, 87), (128, 129, 117)],
            *[(117_792, 115_318, 115_242), (131_100, 128_299, -1)],
        ],
        "b42d8e6ae8ce295a27abde059ff0c884d3f944205e6970953b6a35b9d766c1d7",
        "979a294fcb5a7ef96cdb76d5006c9921062981404df1ebb1b767f63cb6a54ff3",
        0.000992017493464,
        0.000992017493464,
        69_050.3001,
    ),
    Golden(
        3.0,
        ALPHA,
        {},
        [(32, 33, 30), (64, 65, 61), (96, 97, 93), (117_792, 117_681, 117_665), (131_100, 130_967, -1)],
        "09d7e3e7f70dcce0b7f4b1f97e734c4c2481c13f96a97863ef6edf815b8dac75",
        "229a03b43cca6c255b76d0a67402dd6292940475b19c8f6383d695ac5d367222",
        0.000932091368732,
        0.000932091368732,
        14_341.9557,
    ),
    Golden(
        0.1,
        ALPHA,
        {},
        [(32, 28, 6), (64, 50, 19), (96, 71, 33), (117_792, 64_298, 64_024), (131_100, 71_386, -1)],
        "b127d94857d7fefb0b31593a4f5f34393cf87b2812ff06b807d158467a082de0",
        "8985999e64d7a5f4d8e6b6eab6cc95d55152e3ec298810a123a10c61d410ad6a",
        0.000970672965157,
        0.000994171564612,
        352_694.314,
    ),
    Golden(
        0.0,
        ALPHA,
        {},
        [(32, 27, 5), (64, 49, 17), (96, 68, 30), (117_792, 59_637, 59_363), (131_100, 66_199, -1)],
        "e905a098ed974014e988d5b9acc3d9f561b88df6f6abba2d613c8fcf3fcb519a",
        "707756920064e7cd9f2e8207cf2cea8e0468e98889d1f3b20c1593ed5c80e1ff",
        0.000498803207047,
        0.000997606414095,
        371_590.238,
    ),
    Golden(
        2.0,
        1e-4,
        {"price": 3_000_000, "max_samples": 1_000_000, "n0": 100},
        [(32, 33, 25), (64, 65, 55), (96, 97, 85), (960_128, 938_961, 938_789), (1_000_000, 977_842, -1)],
        "a4b382f55653d7ef569216712dfb0eca16d298d05170f1a79ac6f74cfcba6565",
        "f9ea781822e3eee4590d0a5126d9c757c18e62e8568603e50c1c88ebd14f66ee",
        9.96408018945e-05,
        9.96408018945e-05,
        282_543.989,
    ),
    Golden(
        0.5,
        0.05,
        {"price": 20_000, "max_samples": 5_000, "n0": 100},
        [(32, 29, 15), (64, 53, 35), (96, 78, 56), (4_480, 3_186, 3_138), (5_000, 3_524, -1)],
        "b4cfbc2ad9e012d06c8842041024af9dd14a2d68cf7a48b7ecb71d3374a8e338",
        "60c17eb9fbd4800eecad4d839e2b3c56488207b934b3472d89bb9e59413e208b",
        0.0495372201158,
        0.0495372201158,
        7_162.82677,
    ),
]


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
"""Stands for p0 in the table below."""


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
            digits = {"rel": 2e-3 if golden < 1e-9 else 1e-8, "abs": 0 if golden else 1e-14}  # as the table has them
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
    """The mutant: the likelihood ratio of a uniform prior."""
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
    with monkeypatch.context() as mutant:  # the step up to a look instead of the one after it
        mutant.setattr(optimal, "steps_of", lambda looks: [*steps_of(looks)[1:], 1])
        assert abandon() != golden.abandon
    with monkeypatch.context() as mutant:  # a certificate is worth the same, whatever the prior says of its count
        values = optimal._values
        mutant.setattr(optimal, "_values", lambda *args: np.maximum(values(*args), -750_000.0))
        assert abandon() != golden.abandon
    mutant_certify = certify_boundary(p0, looks, ALPHA * (1 - SLACK), end_share=0.5).counts
    assert sha256(mutant_certify) != golden.certify


# --- soundness


def binding(p0: float, looks: list[int], abandon: Sequence[int], alpha: float) -> list[int]:
    """The mutant: abandoned paths leave the recursion, and their alpha is spent on others."""
    alive, spent, boundary = NOTHING_DRAWN, 0.0, []
    shares = certify_shares(p0, looks, alpha, optimal.END_SHARE)
    for step, share, low in zip(steps_of(looks), shares, abandon, strict=True):
        at_look = alive.plus(step, p0)
        u = at_look.least_upper(alpha * share - spent)
        spent += at_look.upper_tail(u)
        alive = at_look.below(u).above(low)
        boundary.append(u)
    return boundary


def test_alpha_holds_where_the_abandon_rule_is_ignored() -> None:
    """Mutants killed: a binding fit, and a certify boundary that is one too small."""
    rule, p0 = make(1.0), NOISE.probability(1.0)
    never = np.full(len(rule.looks), -1)
    assert ever(rule, p0) <= ALPHA
    mutant = binding(rounded_up(p0), rule.looks.tolist(), rule.abandon.tolist(), ALPHA * (1 - SLACK))
    assert Boundaries(rule.looks, np.array(mutant), never).outcome(p0).certify == pytest.approx(0.00105, abs=5e-6)
    smaller = Boundaries(rule.looks, rule.certify - 1, never)
    assert smaller.outcome(p0).certify == pytest.approx(0.0055, abs=5e-5)


def test_the_leader_is_falsely_certified_at_most_alpha() -> None:
    """Mutant killed: the leader rule without rho, which errs almost twice as often at radius 0."""

    def false(rule: Boundaries) -> float:
        """P(a class is certified) for two classes of one half, both of which lack the radius."""
        without = Boundaries(rule.looks, rule.certify, np.full(len(rule.looks), -1))
        return 2 * leader_outcome(without, 0.5).certify

    assert false(make(0.0)) <= ALPHA
    mutant = make(0.0, n0=100)
    assert false(mutant) > 1.99 * ALPHA
    assert 2 * ever(mutant, 0.5) == pytest.approx(0.0019955, abs=5e-8)  # where both may be certified


def test_a_bound_at_the_stopping_look_would_overclaim() -> None:
    """The mutant: p_lower is Clopper–Pearson's where the run stopped, instead of p0."""
    rule, p = make(1.0), 0.8441
    alive, false = NOTHING_DRAWN, 0.0
    for n, step, u in zip(rule.looks.tolist(), rule.steps.tolist(), rule.certify.tolist(), strict=True):
        at_look = alive.plus(step, p)
        overclaims = [k for k in range(u, min(n, u + 400) + 1) if lower_bound(k, n, ALPHA) > p]
        false += at_look.upper_tail(overclaims[0]) if overclaims else 0.0
        alive = at_look.below(u)
    assert false > 4.7 * ALPHA


def test_decisions_between_the_looks_would_spend_more() -> None:
    """The mutant: a decision after every 32 samples, with the boundary drawn through those of the looks."""
    rule, p0 = make(1.0), NOISE.probability(1.0)
    few = rule.looks <= 4_096
    n = np.arange(32, rule.looks[few][-1] + 1, 32)
    peeking = np.ceil(np.interp(n, rule.looks, rule.certify)).astype(int)
    never = np.full(len(n), -1)
    ours = Boundaries(rule.looks[few], rule.certify[few], never[: few.sum()]).outcome(p0).certify
    assert ours < 0.9 * Boundaries(n, peeking, never).outcome(p0).certify


# --- every path of a tiny test

LOOKS = [4, 8, 12]
TINY = [
    (0.6, 0.05, 60, [5, 8, 11], [2, 6, -1], 0.028406, 9.008904),
    (0.5, 0.2, 25, [5, 7, 8], [1, 4, -1], 0.195801, 3.423306),
    (0.8, 0.3, 90, [5, 9, 11], [2, 6, -1], 0.274878, 15.151470),
    (0.7, 0.1, 500, [5, 9, 11], [2, 6, -1], 0.085025, 115.713935),
]
PATHS = np.array(list(itertools.product((0, 1), repeat=12)))
COUNTS = np.cumsum(PATHS, axis=1)[:, [n - 1 for n in LOOKS]]
"""The count of each of the 4,096 paths at each look."""


def stops(certify: Sequence[int], abandon: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether each path certifies, whether it is abandoned, and after how many samples it ends."""
    certified, abandoned = np.zeros(len(PATHS), bool), np.zeros(len(PATHS), bool)
    samples = np.full(len(PATHS), LOOKS[-1])
    for n, counts, u, low in zip(LOOKS, COUNTS.T, certify, abandon, strict=True):
        alive = ~(certified | abandoned)
        certified |= alive & (counts >= u)
        abandoned |= alive & (counts < u) & (counts <= low)
        samples[alive & ((counts >= u) | (counts <= low))] = n
    return certified, abandoned, samples


def weights(p: float) -> np.ndarray:
    successes = PATHS.sum(axis=1)
    return p**successes * (1 - p) ** (12 - successes)


@pytest.mark.parametrize(("p0", "alpha", "price", "certify", "abandon", "spent", "worth"), TINY)
def test_every_path_of_a_tiny_test_agrees(
    p0: float, alpha: float, price: int, certify: list[int], abandon: list[int], spent: float, worth: float
) -> None:
    found = certify_boundary(p0, LOOKS, alpha, end_share=optimal.END_SHARE)
    low, value = optimal.abandon_boundary(p0, LOOKS, found.counts, price)
    assert (found.counts, low) == (certify, abandon)
    assert found.spent == pytest.approx(spent, abs=5e-7)
    assert value == pytest.approx(worth, abs=5e-7)
    rule = Boundaries(np.array(LOOKS), np.array(certify), np.array(low))
    crossed, _, _ = stops(certify, [-1, -1, -1])
    assert found.spent == pytest.approx(weights(p0)[crossed].sum(), abs=1e-12)
    certified, abandoned, samples = stops(certify, low)
    for p in (0.3, p0, 0.9, 1.0):
        expected = Outcome(weights(p)[certified].sum(), weights(p)[abandoned].sum(), weights(p) @ samples)
        outcome = rule.outcome(p)
        for name in ("certify", "abandon", "samples"):
            assert getattr(outcome, name) == pytest.approx(getattr(expected, name), abs=1e-12)
    # No other abandon boundary does better under Jeffreys' prior, and the induction knows its worth.
    successes = PATHS.sum(axis=1)
    jeffreys = np.exp(betaln(successes + 0.5, 12 - successes + 0.5)) / math.pi

    def loss(first: int, second: int) -> float:
        certified, _, samples = stops(certify, [first, second, -1])
        return float(jeffreys @ samples - price * jeffreys[certified].sum())

    losses = {(a, b): loss(a, b) for a in range(-1, certify[0]) for b in range(-1, certify[1])}
    assert min(losses.values()) == pytest.approx(losses[low[0], low[1]], abs=1e-12)
    assert -value == pytest.approx(min(losses.values()), abs=1e-12)


DRAWS = [each for each in itertools.product(range(5), repeat=3) if sum(each) == 4]
"""The counts of three classes among four samples."""


@pytest.mark.parametrize(
    ("p0", "alpha", "spent", "worst", "bound"),
    [
        (0.5, 0.2, 0.195801, 0.391602, 0.391602),
        (0.52, 0.2, 0.105799, 0.169906, 0.172571),
        (0.55, 0.05, 0.044164, 0.052700, 0.053860),
        (0.6, 0.05, 0.028406, 0.029262, 0.029514),
        (0.8, 0.3, 0.274878, 0.274878, 0.274895),
    ],
)
def test_no_three_classes_are_falsely_certified_more_often_than_the_proof_allows(
    p0: float, alpha: float, spent: float, worst: float, bound: float
) -> None:
    found = certify_boundary(p0, LOOKS, alpha, end_share=optimal.END_SHARE)
    rho = optimal.rival_share(p0, LOOKS, found.counts)
    # all 3^12 paths, those with the same counts at the looks taken together
    factorial = np.array([1, 1, 2, 6, 24])
    ways = 24 // factorial[np.array(DRAWS)].prod(axis=1)
    certified: dict[tuple[int, ...], dict[int, int]] = {}
    for blocks in itertools.product(range(len(DRAWS)), repeat=3):
        totals = np.cumsum([DRAWS[b] for b in blocks], axis=0)
        for total, u in zip(totals.tolist(), found.counts, strict=True):
            leader = total.index(max(total))
            if total[leader] >= u:
                of = certified.setdefault(tuple(totals[-1].tolist()), {})
                of[leader] = of.get(leader, 0) + int(ways[list(blocks)].prod())
                break

    def false(p: np.ndarray) -> float:
        """P(a class of probability at most p0 is certified); at p0 itself it is the limit from below."""
        return sum(
            float((p ** np.array(counts)).prod()) * sum(n for c, n in of.items() if p[c] <= p0 * (1 + 1e-12))
            for counts, of in certified.items()
        )

    grid = [0.0, 0.1, 0.2, (1 - p0) / 2, 1 - p0, 0.45, p0]
    points = [np.array([a, b, 1 - a - b]) for a in grid for b in grid if -1e-12 < 1 - a - b <= p0 * (1 + 1e-12)]
    errors = [false(point.clip(0)) for point in points]
    assert found.spent == pytest.approx(spent, abs=5e-7)
    assert found.spent * (1 + rho) == pytest.approx(bound, abs=5e-7)
    assert max(errors) == pytest.approx(worst, abs=5e-7)
    assert max(errors) <= found.spent * (1 + rho) * (1 + 1e-12)


def test_random_settings_keep_alpha_and_their_shape() -> None:
    rng = np.random.default_rng(17)
    for _ in range(60):
        n = int(np.exp(rng.uniform(np.log(2), np.log(4_000))))
        alpha, price = float(10 ** rng.uniform(-20, -0.6)), int(10 ** rng.uniform(1.7, 9))
        ratio, n0 = float(rng.uniform(0, 3)), int(rng.integers(0, 2))
        rule = make(ratio, alpha=alpha, max_samples=n, price=price, n0=n0)
        dearer = make(ratio, alpha=alpha, max_samples=n, price=2 * price, n0=n0)
        p0 = rounded_up(NOISE.probability(ratio))
        rival = 0.0 if n0 else ever(rule, 1 - p0)
        assert ever(rule, p0) + rival <= alpha
        assert (rule.abandon < rule.certify).all()
        assert (dearer.abandon <= rule.abandon).all(), "a higher price never gives up earlier"
        assert (dearer.certify == rule.certify).all(), "the price has no part in soundness"


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


# --- several radii


def curve(radii: Sequence[float], *, alpha: float = ALPHA, **parameters: int) -> optimal.CurveBoundaries:
    rule = Optimal(radii=tuple(radii), **parameters).boundaries(NOISE, 0.0, alpha=alpha, beta=0.5)
    assert isinstance(rule, optimal.CurveBoundaries)
    return rule


def outcome(rule: optimal.CurveBoundaries, p: float) -> CurveOutcome:
    found = rule.outcome(p)
    assert isinstance(found, CurveOutcome)
    return found


def test_alpha_is_not_divided_among_radii() -> None:
    """Mutant killed: alpha / 3 for each of three radii."""
    rule = curve((1.0, 2.0, 3.0))
    assert [sha256(rung.certify) for rung in rule.rungs] == [golden.certify for golden in GOLDEN[:3]]
    assert [sha256(rung.abandon) for rung in rule.rungs] == [golden.abandon for golden in GOLDEN[:3]]
    assert sha256(make(1.0, alpha=ALPHA / 3).certify) != GOLDEN[0].certify
    rows = [
        (0.9, (0.999999861, 9.2e-20, 0), 616.658599),
        (0.98, (1, 0.992825295, 0), 47984.143943),
        (0.9985, (1, 1, 0.000109170441), 19846.311918),
        (0.9995, (1, 1, 0.999766244), 22808.691657),
    ]
    for p, certified, samples in rows:
        found = outcome(rule, p)
        assert found.certified == pytest.approx(certified, rel=1e-2 if p == 0.9 else 1e-8, abs=1e-25)
        assert found.samples == pytest.approx(samples, abs=1e-5)
        assert found.certify == found.certified[0]
        assert found.radius == pytest.approx(sum(found.certified))  # the radii are 1 apart


def test_seven_radii_have_their_golden_boundaries() -> None:
    rule = curve([i / 2 for i in range(1, 8)])
    certify = [u for rung in rule.rungs for u in rung.certify.tolist()]
    abandon = [low for rung in rule.rungs for low in rung.abandon.tolist()]
    assert len(certify) == 483
    assert sha256(certify) == "7a76eb16dfd72e988be61e59fe3cd198281dd1246a79f08637f4b1cec38aaf82"
    assert sha256(abandon) == "28a3a59d9b9d5b1caf398df2200c367d435b8a758c9935e0160f97468e3f9471"
    near, far = outcome(rule, 0.7), outcome(rule, 0.9985)
    assert near.certified[:3] == pytest.approx((0.990757475, 1.38e-10, 0), rel=1e-2, abs=1e-20)
    assert near.certified[0] == pytest.approx(0.990757475, rel=1e-9)
    assert near.samples == pytest.approx(51519.682621, abs=1e-5)
    assert far.certified[4:] == pytest.approx((1, 0.000109184086, 3.9e-25), rel=2e-2, abs=1e-30)
    assert far.samples == pytest.approx(20460.298885, abs=1e-5)


def test_a_list_that_begins_with_0_pays_for_the_rival_class() -> None:
    rule = curve((0.0, 1.0))
    spent = [ever(rung, rounded_up(NOISE.probability(r))) for rung, r in zip(rule.rungs, (0.0, 1.0), strict=True)]
    assert spent == pytest.approx([0.000498803207, 0.000498327645], rel=1e-8)
    assert sha256(rule.rungs[1].certify) == "350e7750617411e2cdd3b3ba0d81095ef380e0e53f385ceec3fda210fce49fb3"
    found = outcome(rule, 0.85)
    assert found.certified == pytest.approx((1, 0.997344463), rel=1e-8)
    assert found.samples == pytest.approx(33693.194283, abs=1e-5)


def test_two_radii_with_a_chosen_class_have_their_golden_values() -> None:
    found = outcome(curve((1.0, 2.0), alpha=0.01, n0=100, max_samples=20_000, price=100_000), 0.98)
    assert found.certified == pytest.approx((1, 0.471402906), rel=1e-8)
    assert found.samples == pytest.approx(13512.794781, abs=1e-5)


def test_boundaries_rise_with_the_radius() -> None:
    """Mutant killed: boundaries that are not raised to those of the smaller radius."""
    radii = (1.0, 1.001, 1.002)
    rule, alone = curve(radii), [make(radius) for radius in radii]
    at = [looks_up_to(131_100).index(n) for n in (160, 192)]
    for rung, single in zip(rule.rungs[1:], alone[1:], strict=True):
        assert single.certify[at].tolist() == [151, 180]
        assert rung.certify[at].tolist() == [152, 181]
    for smaller, larger in itertools.pairwise(rule.rungs):
        assert (larger.certify >= smaller.certify).all()


def test_no_claim_about_several_radii_is_false_more_often_than_alpha() -> None:
    """All paths of three radii, at every p: mutant killed, boundaries that do not rise would have to share alpha."""
    p0s = [NOISE.probability(radius) for radius in (0.0, 0.4, 0.9)]
    rungs = optimal.certify_curve(p0s, LOOKS, 0.2, leading=False)
    assert rungs == [[5, 7, 8], [5, 8, 10], [5, 9, 12]]
    proved = np.zeros(len(PATHS), int)
    for counts, *certify in zip(COUNTS.T, *rungs, strict=True):
        proved = np.maximum(proved, sum((counts >= u).astype(int) for u in certify))
    worst = 0.0
    for p in [*np.arange(0.3, 1, 0.01), *p0s]:
        true = sum(p0 < p for p0 in p0s)  # at p = p0 itself the limit from below
        worst = max(worst, weights(float(p))[proved > true].sum())
    assert worst == pytest.approx(0.195801, abs=5e-7)
