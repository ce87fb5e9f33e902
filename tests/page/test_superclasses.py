"""Procedures that go only with some ensembles: superclasses, and a noise of few outcomes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.page.service import SUPERCLASS, URL, Open, PageService
from tests.support.api import encoded
from tests.support.visit import Visit, grey

BETWEEN = encoded(Image.fromarray(np.where(np.arange(192) < 82, 122, 121).astype(np.uint8).reshape(8, 8, 3)))
"""An image whose mean is where dark becomes light: neither class is proved, but both together are."""


def opened(visit: Open, address: str, **context: Any) -> Visit:
    found = visit(address, **context)
    found.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    return found


def procedures(here: Visit) -> list[str]:
    return here.page.locator("[name=procedure] option").all_inner_texts()


def test_superclasses_are_asked_for_where_an_ensemble_declares_them(visit: Open, service: PageService) -> None:
    here = opened(visit, service.address)
    here.ask(ensemble="trivial", procedure="fixed")
    assert not any(each.startswith("hierarchy") for each in procedures(here))
    here.ask(ensemble="with-superclasses")
    assert "hierarchy: the largest radius" in procedures(here)
    assert here.page.locator("[name=procedure]").input_value() == "fixed", "what was chosen stays"
    here.ask(procedure="hierarchy", samples="500")
    here.page.wait_for_selector("#plan .feasible")
    here.choose(BETWEEN)
    here.certify()
    here.page.wait_for_selector(f".claim :text('{SUPERCLASS}')")
    assert f"changes the superclass ‘{SUPERCLASS}’" in here.text(".claim")
    assert "It does not say that the answer is right." in here.text(".words")
    (certificate,) = service.get(here.certification)["certificates"]
    assert certificate["procedure"]["name"] == "hierarchy"
    here.ask(ensemble="trivial")
    assert here.page.locator("[name=procedure]").input_value() == "optimal"


def submitted(service: PageService, *labels: int) -> str:
    """A certification of images between the classes."""
    procedure = {"name": "hierarchy", "levels": "declared", "n": 500}
    request = {"ensemble": "with-superclasses", "procedure": procedure, "labels": labels}
    answer = service.client.post(
        URL,
        data={"request": json.dumps(request)},
        files=[("images", (f"image-{i}.png", BETWEEN, "image/png")) for i, _ in enumerate(labels)],
        headers={"Prefer": "wait=60"},
    ).json()
    assert [each["class_name"] for each in answer["certificates"]] == [SUPERCLASS] * len(labels)
    return str(answer["id"])


def test_a_superclass_that_the_label_belongs_to_is_right(visit: Open, service: PageService) -> None:
    alone = opened(visit, f"{service.address}#/certifications/{submitted(service, 1)}")
    alone.page.wait_for_selector(".claim")
    assert "The answer is right: the label of this image, ‘light’, belongs to it." in alone.text(".words")
    assert f"the superclass ‘{SUPERCLASS}’, the classes dark, light together" in alone.text(".words")
    batch = opened(visit, f"{service.address}#/certifications/{submitted(service, 0, 1)}")
    batch.page.wait_for_selector(".batch tbody tr:nth-child(2) .decision.certified")
    assert batch.page.locator(".batch .wrong").count() == 0
    batch.page.set_viewport_size({"width": 390, "height": 800})
    assert batch.page.locator(".scroll").first.evaluate("each => each.scrollWidth - each.clientWidth") == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_the_history_fits_the_window_however_long_the_names_are(visit: Open, service: PageService, width: int) -> None:
    alone = submitted(service, 0)
    here = opened(visit, f"{service.address}#/history", viewport={"width": width, "height": 800})
    row = here.page.locator(".history tbody tr").first
    row.locator(f"text={SUPERCLASS}").wait_for()
    cells = row.locator("> *").all()
    assert len(cells) == 6
    for cell in cells:
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width, cell.inner_text()
    assert here.overflow() == 0
    assert here.page.locator(".scroll").first.evaluate("each => each.scrollWidth - each.clientWidth") == 0
    here.page.goto(f"{service.address}#/certifications/{alone}")
    here.page.wait_for_selector(".readout :text('p_A in')")
    assert here.overflow() == 0


def test_a_noise_of_few_outcomes_is_asked_by_its_own_procedure(visit: Open, service: PageService) -> None:
    here = opened(visit, service.address)
    here.ask(ensemble="with-splitting")
    assert procedures(here) == ["exact: the largest radius"]
    here.page.wait_for_selector("#plan .feasible")
    here.choose(grey(230))
    here.certify()
    here.page.wait_for_selector(".claim:has-text('‘light’, for certain')")
