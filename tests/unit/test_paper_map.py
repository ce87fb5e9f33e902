"""docs/paper.md judges by intervals: what they decide, what they leave open, and which results it finds."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.paper import findings as found_in
from benchmarks.paper import paper_map
from benchmarks.paper.findings import Findings, StudyResult, above, below, within
from models.description import Description
from smoothcert.estimate import Estimate
from smoothcert.noise import Gaussian
from tests.support.evaluated import described
from tests.unit.test_outcomes import written

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def result(**figures: object) -> StudyResult:
    return StudyResult({"members": 5, "chapters": [{"name": "x", "title": "An x", "figures": figures}]})


def row(page: str, item: str) -> str:
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {item}"))
    return line


@pytest.mark.parametrize(
    ("low", "high", "over", "under"),
    [
        (1.01, 1.2, "confirmed", "not confirmed"),
        (0.8, 0.99, "not confirmed", "confirmed"),
        (0.9, 1.1, "open: the interval contains 1", "open: the interval contains 1"),
    ],
)
def test_the_whole_interval_decides(low: float, high: float, over: str, under: str) -> None:
    found = result(ratio={"value": 1.0, "low": low, "high": high})
    assert found.above("x", "ratio", 1.0) == over
    assert found.below("x", "ratio", 1.0) == under


def test_a_figure_lies_within_thresholds_with_its_whole_interval() -> None:
    assert within(Estimate(0.7, 0.65, 0.8), 0.6, 0.95) == "confirmed"
    assert within(Estimate(0.7, 0.55, 0.8), 0.6, 0.95) == "open: the interval contains 0.6"
    assert within(Estimate(0.9, 0.85, 1.0), 0.6, 0.95) == "open: the interval contains 0.95"
    assert within(Estimate(0.5, 0.4, 0.55), 0.6, 0.95) == "not confirmed"
    assert within(Estimate(1.0, 0.97, 1.1), 0.6, 0.95) == "not confirmed"


def test_figures_are_shown_with_their_intervals_where_they_have_one() -> None:
    found = result(ratio={"value": 1.04, "low": 0.9, "high": 11.0}, exact=0.25, unknown=None)
    assert found.text("x", "ratio") == "1.040 (0.900 to 11.0)"
    assert found.text("x", "exact") == "0.250"
    assert (found.value("x", "ratio"), found.value("x", "exact")) == (1.04, 0.25)
    assert math.isnan(found.value("x", "unknown"))
    assert above(found.figure("x", "unknown"), 1.0).startswith("open")
    assert below(found.figure("x", "exact"), 1.0) == "confirmed"
    assert found.link("x") == "[x](../benchmarks/results/study/report.md#an-x)"


def test_the_page_has_a_row_for_every_claim_and_links_to_files() -> None:
    page = paper_map.page(Findings.read(RESULTS))
    assert page.count("\n| ") == len(paper_map.CLAIMS) + 1
    for link in set(re.findall(r"\]\(\.\./([^)#]+)", page)):
        assert (ROOT / link).is_file()


def test_the_page_follows_the_figures_of_a_study(tmp_path: Path) -> None:
    shutil.copytree(RESULTS / "study", tmp_path / "study-other", ignore=shutil.ignore_patterns("*.png"))
    path = tmp_path / "study-other" / "study.json"
    study = json.loads(path.read_text())
    chapters = {each["name"]: each["figures"] for each in study["chapters"]}
    chapters["inferences"]["ACR of k members / of k n samples, within reach"] = {"value": 1.2, "low": 1.1, "high": 1.3}
    path.write_text(json.dumps(study))
    page = paper_map.page(Findings.read(tmp_path))
    line = row(page, "Table and figure of an equal number of inferences")
    assert line.endswith("| confirmed |")
    assert "1.200 (1.100 to 1.300)" in line
    assert "study-other/report.md#equal-number" in line
    assert "100 images with 2,000 samples" in row(page, "Tables of ensemble sizes, sigma = .25, Gaussian training")
    assert "not comparable: no ensemble" in row(page, "Table for l1 on CIFAR-10")
    chapters["trained"] |= {
        "ACR of macer / of the best method alone": {"value": 1.0, "low": 1.0, "high": 1.0},
        "ACR of macer, smoothadv / of the best method alone": {"value": 1.1, "low": 1.05, "high": 1.2},
    }
    path.write_text(json.dumps(study))
    line = row(paper_map.page(Findings.read(tmp_path)), "Table of differently trained members")
    assert "macer, smoothadv: 1.100 (1.050 to 1.200) times the best method alone" in line
    assert line.endswith("| confirmed |")


def test_an_evaluation_gives_a_verdict_once_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These are sigma = .5 and consistency training, which this repository may not have yet."""

    def described_as(name: str) -> Description:
        method, _, sigma = name.partition("-")
        return replace(described({}), method=method, noise=Gaussian(float(sigma)))

    monkeypatch.setattr(found_in, "describe", described_as)
    page = paper_map.page(Findings.read(tmp_path))
    assert "there are no evaluations of both" in row(page, "The same tables, by training")
    for name, one, three in (("gaussian-0.5", 0.1, 0.2), ("gaussian-0.25", 0.1, 0.1), ("consistency-0.25", 0.3, 0.2)):
        written(tmp_path / f"{name}.csv", fixed_k1=one, fixed_k3=three)
        heading = f"the certificates of {name} by procedure, radius and members"
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\n{heading}\n")
    page = paper_map.page(Findings.read(tmp_path))
    half = row(page, "Tables for gaussian, sigma 0.5, gaussian training")
    assert "4 images with 1,100 samples" in half
    assert "2.000 times that of the first member" in half
    assert half.endswith("| confirmed |")
    assert row(page, "Tables of ensemble sizes, sigma = .25, consistency training").endswith("| not confirmed |")
    assert "3.000 (3.000 to 3.000) times the ACR of Gaussian training" in row(page, "The same tables, by training")
    assert "the evaluation [gaussian-0.5.md](../benchmarks/results/gaussian-0.5.md) of gaussian-0.5" in page
