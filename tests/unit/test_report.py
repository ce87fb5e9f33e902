"""The report of an evaluation."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from smoothcert.certificate import Certificate
from smoothcert.errors import SmoothcertError
from smoothcert.evaluation import Judged
from smoothcert.extras import MissingExtraError
from smoothcert.noise import Gaussian, GaussianLinf, Noise, Replacement, Uniform
from smoothcert.plot import draw_accuracy, pyplot
from smoothcert.procedures import Adaptive, Fixed
from smoothcert.report import Report, ticks
from smoothcert.tables import csv_text, markdown_table
from tests.support.certificates import certificate_of


@pytest.mark.parametrize(("end", "count"), [(0.25, 11), (0.02, 11), (0.952864, 11), (1.0, 11), (3.7, 9), (1e-3, 11)])
def test_the_curve_has_round_radii_and_ends_at_the_last(end: float, count: int) -> None:
    found = ticks(end)
    assert (found[0], found[-1], len(found)) == (0, end, count)
    assert found == sorted(set(found))
    assert all(len(f"{each:g}") <= 7 for each in found[:-1])
    assert ticks(0) == ticks(5e-324) == [0]


def test_the_curve_ends_where_it_would_mean_nothing() -> None:
    """It ends at the target radius or, without one, at the largest radius that the samples can prove."""
    adaptive, fixed = certificate_of(Adaptive(), 0.9), certificate_of(Fixed(n=1000), 0.9)
    assert adaptive.target_radius is not None
    assert Report("x", ["a"], [Judged(adaptive, 0)]).curve[-1][0] == adaptive.target_radius
    most = Fixed(n=1000).largest_radius(fixed.noise, alpha=fixed.alpha)
    assert Report("x", ["a"], [Judged(fixed, 0)]).curve[-1][0] == pytest.approx(most, abs=1e-6)


def in_l0(p_a: float, radius: float = 3.0) -> Certificate:
    return certificate_of(Adaptive(), p_a, noise=Replacement(0.8, 2), radius=radius)


def test_radii_in_l0_are_whole_numbers_of_values() -> None:
    report = Report("x", ["a", "b"], [Judged(in_l0(0.9999), 1), Judged(in_l0(0.5), 1)])
    assert list(report.radii) == [0, 1, 2, 3]
    assert "radius 3, noise replacement, keep 0.8, levels 2" in report.question
    assert "| 3 | 50.0 (1.258 to 98.7) |" in report.markdown()
    for text in (report.markdown(), report._repr_html_()):
        assert "Radii are numbers of changed values (l0), for values in [0, 1]." in text
        assert "pixels" not in text
    assert [len(ticks(end, whole=True)) for end in (0, 1, 2, 9, 40)] == [1, 2, 3, 10, 9]


def test_where_one_radius_was_asked_for_there_is_one_row_and_no_rectangle() -> None:
    """The share is the same at all smaller radii, so the distribution of p_A is shown instead, as on the page."""
    targeted, open_ = certificate_of(Adaptive(), 0.9), certificate_of(Fixed(n=1000), 0.9)
    report = Report("x", ["a"], [Judged(targeted, 0)])
    assert [radius for radius, _ in report.curve] == [targeted.target_radius]
    assert report.curve_csv().count("\n") == 2
    assert [axes.get_xlabel().partition(":")[0] for axes in report.plot().axes] == ["p_A", "share of images, %"]
    assert 'role="img"' in report.html()
    assert "The share over the radius" not in report.html()
    curved = Report("x", ["a"], [Judged(open_, 0)])
    assert len(curved.curve) > 1
    assert curved.plot().axes[0].get_xlabel().startswith("radius: ")
    assert "The share over the radius" in curved.html()


def test_the_picture_of_whole_radii_has_a_point_at_each() -> None:
    axes = Figure().subplots()
    draw_accuracy(axes, [Judged(in_l0(0.9999), 1), Judged(in_l0(0.5), 1)], 3.0)
    assert axes.get_lines()[0].get_xdata().tolist() == [0, 1, 2, 3]
    assert axes.get_xlabel() == "radius: numbers of changed values (l0)"
    assert all(tick == round(tick) for tick in axes.get_xticks())


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (Gaussian(0.25), "Euclidean lengths (l2)"),
        (Uniform(1.0), "sums of absolute changes (l1)"),
        (GaussianLinf(0.25, 3072), "changes of the value that changes most (l-infinity)"),
    ],
)
def test_a_report_says_what_its_radii_measure(noise: Noise, words: str) -> None:
    report = Report("x", ["a"], [Judged(certificate_of(Adaptive(), 0.99, noise=noise, radius=0.004), 1)])
    assert f"Radii are {words}, for values in [0, 1]." in report.markdown()


def test_the_question_is_stated_in_words() -> None:
    certificate = certificate_of(Adaptive(), 0.9)
    assert Report("x", ["a"], [Judged(certificate, 0)]).question == (
        "procedure adaptive, n0 100, stages 100 1000 10000 120000, keep_samples False, "
        f"radius {certificate.target_radius:g}, noise {certificate.noise.label}, "
        f"alpha {certificate.alpha:g}, beta {certificate.beta:g}"
    )


def test_a_notebook_shows_the_figures_and_the_curve_escaped() -> None:
    report = Report("<x>", ["a"], [Judged(certificate_of(Adaptive(), 0.9), 1)])
    html = report._repr_html_()
    assert "&lt;x&gt;" in html
    assert "<x>" not in html
    assert report._repr_markdown_() == report.markdown()
    for name in report.figures:
        assert f"<td>{name}<" in html
    assert html.count("<tr>") == 2 + len(report.figures) + len(report.curve)


def test_the_table_of_pandas_has_a_row_for_each_image() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: `make setup` installs it")
    judged = [Judged(certificate_of(Adaptive(), p), 1) for p in (0.9, 0.5)]
    table = Report("x", ["a", "b"], judged).to_pandas()
    assert list(table["image"]) == ["a", "b"]
    assert list(table["decision"]) == ["certified", "abstain"]
    assert list(table["samples"]) == [each.certificate.samples for each in judged]


def test_a_table_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=re.escape("Report.to_pandas needs pandas: pip install pandas")):
        Report("x", ["a"], [Judged(certificate_of(Adaptive(), 0.9), 1)]).to_pandas()


def test_a_picture_is_a_figure_that_a_notebook_shows(tmp_path: Path) -> None:
    report = Report("x", ["a"], [Judged(certificate_of(Fixed(n=1000), 0.9), 1)])
    figure = report.plot(tmp_path / "report.png")
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    assert figure.axes[0].lines[0].get_ydata()[0] == 100  # the one image is right and certified at radius 0
    with pytest.raises(SmoothcertError, match="cannot write the picture"):
        report.plot(tmp_path / "nowhere" / "report.png")


def test_a_picture_without_matplotlib_says_which_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        MissingExtraError, match=re.escape("needs matplotlib: pip install '.[plot]' in a clone of smoothcert")
    ):
        pyplot()


def test_tables_are_written_as_others_read_them() -> None:
    assert markdown_table(("a", "b"), [(1, 0.5), ("x", 12345.6)]) == [
        "| a | b |",
        "|---|---|",
        "| 1 | 0.5 |",
        "| x | 12,346 |",
    ]
    assert csv_text(("a", "b"), [("x,y", None)]) == 'a,b\n"x,y",\n'
