"""`smoothcert compare`: is the new ensemble worse than the old one on the same images?"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from smoothcert import paired
from smoothcert.certificate import Certificate
from smoothcert.collection import collect
from smoothcert.comparison import compare
from smoothcert.errors import DomainError
from smoothcert.noise import RoundedGaussian
from smoothcert.paired import difference_interval, mcnemar
from smoothcert.procedures import Fixed, Optimal
from tests.support.certificates import altered
from tests.support.command import one_sentence, smoothcert
from tests.support.ledgers import certified, write_ledger

TARGETED = Optimal(max_samples=3000)
CURVES = Optimal(max_samples=3000, radii=(0.1, 0.3, 0.5))
OLD = [certified(place, p_a) for place, p_a in enumerate([0.9] * 30 + [0.45] * 10)]
WORSE = [certified(place, p_a, ensemble="two") for place, p_a in enumerate([0.9] * 12 + [0.45] * 28)]
SAME = [certified(place, p_a, ensemble="two") for place, p_a in enumerate([0.9] * 29 + [0.45] * 10 + [0.9])]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_ledger(tmp_path / "old.jsonl", OLD, [1] * 40)
    write_ledger(tmp_path / "worse.jsonl", WORSE, [1] * 40)
    write_ledger(tmp_path / "same.jsonl", SAME, [1] * 40)
    return tmp_path


def test_a_release_that_is_worse_ends_with_exit_code_3() -> None:
    done = smoothcert("compare", "old.jsonl", "worse.jsonl", "--radius", 0.1, "--json", "--report", "page.html")
    assert done.returncode == 3
    assert "worse is worse than old by more than 0 points at 1 of 1 radii, with 95 % confidence" in done.stderr
    (found,) = json.loads(done.stdout)["differences"]
    assert (found["old"], found["new"], found["gained"], found["lost"]) == (75, 30, 0, 18)
    assert found["p_value"] == pytest.approx(binomtest(0, 18).pvalue)
    assert found["points"]["low"] < -45 < found["points"]["high"] < -20
    text = Path("page.md").read_text()
    assert "| 0.1 | 75 | 30 | 0 | 18 |" in text
    assert text.count("within") == 18
    assert "McNemar" in Path("page.html").read_text()


def test_the_margin_and_the_confidence_decide() -> None:
    def code(*options: object) -> int:
        return smoothcert("compare", "old.jsonl", "worse.jsonl", "--radius", 0.1, *options).returncode

    assert [code("--margin", margin) for margin in (0, 20, 30, 45)] == [3, 3, 0, 0]
    assert code("--margin", 20, "--confidence", 0.9999999) == 0


def test_a_release_that_is_as_good_passes() -> None:
    done = smoothcert("compare", "old.jsonl", "same.jsonl")
    assert done.returncode == 0, done.stderr
    assert "same is not shown to be worse than old by more than 0 points, with 95 % confidence." in done.stderr


def test_images_are_paired_by_their_pixels_and_not_by_their_order() -> None:
    shuffled = [SAME[place] for place in np.random.default_rng(0).permutation(40)]
    write_ledger(Path("shuffled.jsonl"), shuffled)
    found = [
        json.loads(smoothcert("compare", "old.jsonl", f"{name}.jsonl", "--json").stdout)
        for name in ("same", "shuffled")
    ]
    assert found[0]["differences"] == found[1]["differences"]


@pytest.mark.parametrize(
    ("certificates", "words"),
    [
        ([*SAME[:-1]], "image 39 of OLD is not among those of NEW"),
        ([*SAME, certified(40, 0.9, ensemble="two")], "1 image of NEW are not in OLD"),
        ([*SAME[:-1], certified(39, 0.9, ensemble="two", image="f" * 64)], "image 39 of OLD is not among those of NEW"),
        ([*SAME[:-1], certified(39, 0.9)], "mixes ensembles"),
        ([*SAME[:-1], altered(SAME[-1], ["radius"], 0.9, signed=True)], "NEW is wrong, and a comparison would be, too"),
        ([certified(place, 0.9, noise=RoundedGaussian(0.5)) for place in range(40)], "noise is"),
        ([certified(place, 0.9, alpha=0.01) for place in range(40)], "alpha is 0.001 in OLD and 0.01 in NEW"),
        ([certified(place, 0.9, class_name="cat") for place in range(40)], "class 1 is 'ship' in OLD and 'cat' in NEW"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_a_sentence(certificates: list[Certificate], words: str) -> None:
    write_ledger(Path("new.jsonl"), certificates)
    one_sentence(smoothcert("compare", "old.jsonl", "new.jsonl"), words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--margin", -1), "--margin must be points from 0 to 100, got -1.0"),
        (("--confidence", 95), "--confidence must be between 0 and 1, such as 0.95, got 95.0"),
        (("--confidence", 0.9999999999999), "--confidence must be between 0 and 1, such as 0.95, got 0.9999999999999"),
        (("--radius", -0.5), "--radius must be a number from 0 on, got -0.5"),
        (("--radius", "inf"), "--radius must be a number from 0 on, got inf"),
    ],
)
def test_bad_options_are_a_sentence(options: tuple[object, ...], words: str) -> None:
    one_sentence(smoothcert("compare", "old.jsonl", "same.jsonl", *options), words, code=2)


@pytest.mark.parametrize("radius", [-0.5, float("nan")])
def test_a_radius_that_is_none_is_refused_in_python_too(radius: float) -> None:
    found = collect([("old.jsonl", Path("old.jsonl").read_bytes())])
    with pytest.raises(DomainError, match=f"a radius must be a number from 0 on, got {radius}"):
        compare(found, found, radii=[radius])


def test_labels_must_agree() -> None:
    write_ledger(Path("new.jsonl"), SAME, [1] * 39 + [0])
    one_sentence(smoothcert("compare", "old.jsonl", "new.jsonl"), "image 39 has the label 1 in OLD and 0 in NEW")


def test_procedures_may_differ() -> None:
    write_ledger(Path("new.jsonl"), [certified(place, 0.9, procedure=Fixed(n=2000)) for place in range(40)])
    assert smoothcert("compare", "old.jsonl", "new.jsonl", "--radius", 0.1).returncode == 0


CURVE = [certified(i, p_a, procedure=CURVES) for i, p_a in enumerate([0.95] * 30 + [0.45] * 10)]
FULL = [certified(i, p_a, procedure=Fixed(n=10_000)) for i, p_a in enumerate([0.95] * 30 + [0.45] * 10)]


@pytest.mark.parametrize("reverse", [False, True])
def test_sets_are_compared_at_the_radii_that_both_were_asked_about(reverse: bool) -> None:
    """The curve was not asked about 0.35, which `fixed` proves for thirty images."""
    write_ledger(Path("full.jsonl"), FULL, [1] * 40)
    write_ledger(Path("curve.jsonl"), CURVE, [1] * 40)
    names = ["curve.jsonl", "full.jsonl"] if reverse else ["full.jsonl", "curve.jsonl"]
    done = smoothcert("compare", *names, "--json", "--report", "page.html")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["radius"] for each in found["differences"]] == [0.1, 0.3, 0.5]
    assert [(each["old"], each["new"]) for each in found["differences"]] == [(75, 75), (75, 75), (0, 0)]
    assert found["ACR"] is None
    assert "The ACR is not compared, since the sets were asked about different radii." in Path("page.md").read_text()
    words = f"{'OLD' if reverse else 'NEW'} was not asked about radius 0.35, but about 0.1 0.3 0.5"
    one_sentence(smoothcert("compare", *names, "--radius", 0.35), words)
    assert smoothcert("compare", *names, "--radius", 0.3).returncode == 0


def test_radii_in_common_are_compared_and_without_any_there_is_a_sentence() -> None:
    write_ledger(Path("curve.jsonl"), CURVE)
    for name, radius in (("one", 0.3), ("other", 0.2)):
        write_ledger(Path(f"{name}.jsonl"), [certified(i, 0.95, procedure=TARGETED, radius=radius) for i in range(40)])
    done = smoothcert("compare", "curve.jsonl", "one.jsonl", "--json")
    assert [each["radius"] for each in json.loads(done.stdout)["differences"]] == [0.3]
    words = "OLD was asked about 0.1 0.3 0.5 and NEW about 0.2: they have no radius in common"
    one_sentence(smoothcert("compare", "curve.jsonl", "other.jsonl"), words)


# --- the mathematics


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (3, 9), (9, 3), (20, 21), (0, 18)])
def test_the_exact_test_is_that_of_mcnemar(gained: int, lost: int) -> None:
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert mcnemar(gained, lost) == pytest.approx(expected)


def test_the_interval_is_symmetric_and_contains_what_was_seen() -> None:
    for gained, lost, n in [(0, 0, 5), (3, 1, 50), (7, 7, 20), (5, 0, 5)]:
        low, high = difference_interval(gained, lost, n, level=0.05)
        assert -1 <= low <= (gained - lost) / n <= high <= 1
        assert difference_interval(lost, gained, n, level=0.05) == (-high, -low)


def test_more_images_and_less_confidence_make_it_narrower() -> None:
    def width(gained: int, lost: int, n: int, level: float) -> float:
        low, high = difference_interval(gained, lost, n, level=level)
        return high - low

    assert width(30, 10, 400, 0.05) < width(3, 1, 40, 0.05)
    assert width(3, 1, 40, 0.2) < width(3, 1, 40, 0.05)
    assert width(30, 10, 400, 0.05) < 1.15 * 2 * 1.96 * np.sqrt((40 / 400 - 0.05**2) / 400)  # of a normal law


@pytest.mark.parametrize(
    ("gained", "lost", "n"), [(0, 0, 5), (1, 0, 5), (1, 1, 10), (0, 2, 20), (4, 8, 50), (33, 17, 161)]
)
def test_the_margin_covers_what_lies_between_the_rates(
    monkeypatch: pytest.MonkeyPatch, gained: int, lost: int, n: int
) -> None:
    level = 0.005
    delta = difference_interval(gained, lost, n, level=2 * level)[1]
    monkeypatch.setattr(paired, "RATES", 2001)
    monkeypatch.setattr(paired, "MARGIN", 0.0)
    assert paired._p_value(gained + lost, n, delta, level, paired._most_gains(gained, lost, n, level)) <= level


@pytest.mark.parametrize("level", [0.25, 0.025, 0.0005])
def test_outcomes_are_ordered_by_their_approximate_limit(level: float) -> None:
    n, z = 8, norm.isf(level)

    def limit(gained: int, lost: int) -> float:
        """The larger root of (t - n delta)^2 = z^2 n (rate - delta^2)."""
        t, rate = gained - lost, (gained + lost + 1) / (n + 1)
        return float(max(np.roots([n**2 + z**2 * n, -2 * n * t, t**2 - z**2 * n * rate]).real))

    outcomes = [(gained, lost) for gained in range(n + 1) for lost in range(n + 1 - gained)]
    for seen in outcomes:
        most = paired._most_gains(*seen, n, level)
        assert [each[0] <= most[sum(each)] for each in outcomes] == [
            limit(*each) <= limit(*seen) + 1e-9 for each in outcomes
        ]


def test_the_chance_of_fewer_gains_falls_with_the_difference() -> None:
    """So halving finds the end. An order by a statistic that depends on the difference jumps here by 43 %."""
    most = paired._most_gains(2, 7, 10, 0.025)
    chances = [paired._p_value(9, 10, delta, 0.025, most) for delta in np.linspace(-0.99, 0.99, 100)]
    assert all(later <= earlier for earlier, later in pairwise(chances))


def test_counts_that_cannot_be_are_refused() -> None:
    with pytest.raises(DomainError, match="gained and lost must be at most n = 5 together, got 3 and 3"):
        difference_interval(3, 3, 5, level=0.05)
