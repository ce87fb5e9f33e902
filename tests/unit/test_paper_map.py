"""docs/paper.md judges by intervals: what they decide, and what they leave open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.paper import paper_map
from benchmarks.paper.paper_map import StudyResult

STUDY = Path(__file__).parents[2] / "benchmarks" / "results" / "study" / "study.json"


def result(**figures: object) -> StudyResult:
    return StudyResult({"members": 5, "chapters": [{"name": "x", "figures": figures}]})


@pytest.mark.parametrize(
    ("low", "high", "above", "below"),
    [
        (1.01, 1.2, "confirmed", "not confirmed"),
        (0.8, 0.99, "not confirmed", "confirmed"),
        (0.9, 1.1, "open: the interval contains 1", "open: the interval contains 1"),
    ],
)
def test_the_whole_interval_decides(low: float, high: float, above: str, below: str) -> None:
    found = result(ratio={"value": 1.0, "low": low, "high": high})
    assert found.above("x", "ratio", 1.0) == above
    assert found.below("x", "ratio", 1.0) == below


def test_figures_are_shown_with_their_intervals_where_they_have_one() -> None:
    found = result(ratio={"value": 1.04, "low": 0.9, "high": 11.0}, exact=0.25)
    assert found.text("x", "ratio") == "1.040 (0.900 to 11.0)"
    assert found.text("x", "exact") == "0.250"
    assert (found.value("x", "ratio"), found.value("x", "exact")) == (1.04, 0.25)


def test_the_page_has_a_row_for_every_item_and_follows_the_figures() -> None:
    study = json.loads(STUDY.read_text())
    page = paper_map.page(study)
    assert page.count("\n| ") == len(paper_map.ENTRIES) + 1
    chapter = next(each for each in study["chapters"] if each["name"] == "inferences")
    chapter["figures"]["ACR of k members / of k n samples, within reach"] = {"value": 1.2, "low": 1.1, "high": 1.3}
    (row,) = (line for line in paper_map.page(study).splitlines() if "equal number of inferences" in line)
    assert row.endswith("| confirmed |")
    assert "1.200 (1.100 to 1.300)" in row
