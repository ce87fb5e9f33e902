"""A prediction is a class without a radius, and no word on the page calls it certified."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from tests.page.test_history import cells_of
from tests.support.visit import CLOSE, DARK, LIGHT, Visit

QUESTION = {"procedure": "predict", "samples": "68", "alpha": "1e-20"}
"""A question in which all 68 samples must agree: 2 ** -67 is below alpha, and CLOSE agrees in 0.88 ** 68 = 0.0002."""


@pytest.fixture
def predicting(here: Visit) -> Visit:
    here.ask(**QUESTION)
    return here


def test_a_prediction_is_not_called_certified_and_has_no_radius(predicting: Visit) -> None:
    predicting.choose(LIGHT)
    predicting.certify()
    predicting.page.wait_for_selector(".claim")
    assert predicting.text(".title") == "Predicted"
    assert "nothing is claimed about perturbations" in predicting.text(".claim")
    assert predicting.figure("radius proved") == "none"
    assert "The probability of a wrong class is at most" in predicting.text(".words")
    assert "decides from 68" in predicting.text(".readout")
    assert predicting.page.locator(".word.certify").text_content() == "decide"
    assert "largest radius" not in predicting.text("#plan")
    assert not re.search("certif", predicting.text("#answer").replace("smoothed classifier", ""), re.IGNORECASE)
    predicting.page.click("nav >> text=History")
    predicting.page.wait_for_selector(".batch tbody tr:nth-child(1) .decision")
    assert cells_of(predicting, 1)[1:4] == ["predicted", "light", "–"]


def test_a_batch_of_predictions_is_told_apart_from_certificates(predicting: Visit, tmp_path: Path) -> None:
    predicting.choose(DARK, CLOSE, LIGHT)
    predicting.certify()
    predicting.page.wait_for_selector(".status.succeeded")
    rows = [text.split() for text in predicting.page.locator(".batch tbody tr").all_inner_texts()]
    assert [row[1:] for row in rows] == [["predicted", "dark", "68"], ["abstained", "68"], ["predicted", "light", "68"]]
    assert (predicting.figure("predicted"), predicting.figure("abstained")) == ("2", "1")
    assert predicting.page.locator(".curve").count() == 0, "there is no radius to draw one by"
    assert "predicted: 2 of 3 images, 66.7 %" in predicting.text(".readout")
    choices = predicting.page.get_by_label("Show").locator("option").all_inner_texts()
    assert choices == ["all images", "predicted", "abstained", "not finished"]
    predicting.page.get_by_label("Show").select_option("predicted")
    assert predicting.page.locator(".batch tbody tr").count() == 2
    assert "certified" not in predicting.text("#answer").lower()
    with predicting.page.expect_download() as download:
        predicting.page.click("text=Download CSV")
    download.value.save_as(tmp_path / "batch.csv")
    with (tmp_path / "batch.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [(row["decision"], row["radius"]) for row in table] == [
        ("predicted", ""),
        ("abstain", ""),
        ("predicted", ""),
    ]
    predicting.page.click("nav >> text=History")
    predicting.page.wait_for_selector(".batch .tally")
    assert cells_of(predicting, 1)[1] == "done 2 of 3 predicted"


def test_a_prediction_that_runs_asks_for_the_class(here: Visit) -> None:
    here.ask(ensemble="moody", procedure="predict", samples="1000000")
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector(".title:text('Which class is it?')")
    here.page.wait_for_selector("#answer :text('samples drawn; the class is found when all are there')")
    assert "Waiting for the first samples" not in here.text("#answer")
    here.page.click("text=Cancel")
    here.page.wait_for_selector(".status.canceled")
