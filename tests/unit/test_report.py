"""The report of an evaluation."""

from __future__ import annotations

import pytest

from smoothcert.evaluation import Judged
from smoothcert.procedures import Adaptive, Fixed
from smoothcert.report import Report, csv_text, markdown_table, ticks
from tests.support.certificates import certificate_of


@pytest.mark.parametrize(("end", "count"), [(0.25, 11), (0.02, 11), (0.952864, 11), (1.0, 11), (3.7, 9), (1e-3, 11)])
def test_the_curve_has_round_radii_and_ends_at_the_last(end: float, count: int) -> None:
    found = ticks(end)
    assert (found[0], found[-1], len(found)) == (0, end, count)
    assert found == sorted(set(found))
    assert all(len(f"{each:g}") <= 7 for each in found[:-1])
    assert ticks(0) == [0]


def test_the_curve_ends_where_it_would_mean_nothing() -> None:
    """At the target, which is not to be surpassed, or at the most that the samples can prove."""
    adaptive, fixed = certificate_of(Adaptive(), 0.9), certificate_of(Fixed(n=1000), 0.9)
    assert adaptive.target_radius is not None
    assert Report("x", ["a"], [Judged(adaptive, 0)]).curve[-1][0] == adaptive.target_radius
    most = Fixed(n=1000).largest_radius(fixed.noise, alpha=fixed.alpha)
    assert Report("x", ["a"], [Judged(fixed, 0)]).curve[-1][0] == pytest.approx(most, abs=1e-6)


def test_the_question_is_told_in_words() -> None:
    certificate = certificate_of(Adaptive(), 0.9)
    said = Report("x", ["a"], [Judged(certificate, 0)]).question
    assert said == (
        "procedure adaptive, n0 100, stages 100 1000 10000 120000, keep_samples False, "
        f"radius {certificate.target_radius:g}, sigma {certificate.noise.sigma:g}, "
        f"alpha {certificate.alpha:g}, beta {certificate.beta:g}"
    )


def test_tables_are_written_as_others_read_them() -> None:
    assert markdown_table(("a", "b"), [(1, 0.5), ("x", 12345.6)]) == [
        "| a | b |",
        "|---|---|",
        "| 1 | 0.5 |",
        "| x | 12,346 |",
    ]
    assert csv_text(("a", "b"), [("x,y", None)]) == 'a,b\n"x,y",\n'
