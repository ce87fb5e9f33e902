"""docs/notebook.ipynb runs from its first cell to its last, and its stored outputs are those of such a run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clone import ROOT
from tests.support.notebook import run_notebook

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


@pytest.fixture(scope="module")
def run() -> dict[str, Any]:
    return run_notebook(NOTEBOOK)


def outputs(notebook: dict[str, Any]) -> Iterator[str]:
    """The text of every output."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            shown = output.get("text") or output["data"].get("text/html") or output["data"]["text/plain"]
            yield "".join(shown)


def test_the_cells_run_in_order(run: dict[str, Any]) -> None:
    shown = "\n".join(outputs(run))
    assert "No perturbation of Euclidean length below 0.5, with float32 taken for real numbers, changes" in shown
    assert "Verification(problems=())" in shown
    assert "certified accuracy, %" in shown
    assert "Train it with gaussian, sigma 0.5 on every image" in shown
    assert "Normalise with mean=0 and std=1/255." in shown


def test_the_stored_outputs_are_of_such_a_run(run: dict[str, Any]) -> None:
    """Numbers may differ between machines, but nothing else; `python -m tests.support.notebook` stores new outputs."""
    stored = json.loads(NOTEBOOK.read_text())
    plain = [[re.sub(r"[\d.,]+", "0", text) for text in outputs(each)] for each in (stored, run)]
    names = [[re.sub(r"\W+|\d+", " ", text).split()[:5] for text in each] for each in plain]
    assert names[0] == names[1]
    counts = [[cell.get("execution_count") for cell in each["cells"]] for each in (stored, run)]
    assert counts[0] == counts[1]


def test_the_notebook_is_one_that_viewers_can_read() -> None:
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    assert any(
        "image/png" in output.get("data", ()) for cell in notebook["cells"] for output in cell.get("outputs", ())
    )
