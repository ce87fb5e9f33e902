"""The page with the shipped ensemble and its sample images."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from models.data import load_images
from models.registry import ZOO
from tests.support.api import Api
from tests.support.shipped import NAME, shipped
from tests.support.visit import Visit

SHEET = load_images(ZOO / "cifar10-test-100.json")
SHIP = 4


@pytest.fixture(scope="module")
def api(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with shipped(tmp_path_factory.mktemp("samples")) as running:
        yield running


@pytest.fixture
def here(visit: Callable[..., Visit], api: Api) -> Visit:
    opened = visit(f"http://127.0.0.1:{api.port}/")
    opened.page.wait_for_selector(".thumb")
    return opened


def test_a_sample_is_certified_and_its_label_is_known(here: Visit, api: Api) -> None:
    assert here.page.locator(".thumb").all_inner_texts() == list(SHEET.classes)
    here.page.click(".thumb:has-text('ship')")
    here.ask(consensus="2")
    here.certify()
    assert here.text(".claim") == (
        "No perturbation of Euclidean length below 0.25, among 8-bit images, changes the answer ‘ship’, "
        "with 99.9 % confidence."
    )
    assert "The answer is right" in here.text(".words")
    assert "every one of the 3,072 values by 1.15 levels" in here.text(".changes")
    found = api.client.get(f"/v1/certifications/{here.certification}").json()
    (certificate,) = found["certificates"]
    everybody = 5 * certificate["samples"]
    assert here.figure("evaluations saved").startswith(f"{everybody - certificate['evaluations']:,} (")
    assert (found["ensemble"], found["request"]["labels"], found["request"]["consensus"]) == (NAME, [8], 2)
    here.page.reload()
    assert here.page.locator(".face img").get_attribute("src") == f"/samples/cifar10-test-100/{SHIP}.png"


def test_certify_is_above_the_fold(visit: Callable[..., Visit], api: Api) -> None:
    opened = visit(f"http://127.0.0.1:{api.port}/", viewport={"width": 1280, "height": 900})
    opened.page.click(".thumb:has-text('ship')")
    opened.page.wait_for_selector("#plan .feasible")
    box = opened.page.locator("#certify").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 900
    assert opened.page.evaluate("scrollY") == 0


@pytest.mark.parametrize("width", [320, 500, 1200])
def test_samples_stay_within_their_panel(visit: Callable[..., Visit], api: Api, width: int) -> None:
    opened = visit(f"http://127.0.0.1:{api.port}/", viewport={"width": width, "height": 740})
    opened.page.wait_for_selector(".thumb")
    outside = opened.page.evaluate(
        """() => {
             const edge = document.getElementById("thumbs").getBoundingClientRect().right;
             return [...document.querySelectorAll(".thumb")].filter((each) =>
               each.getBoundingClientRect().right > edge + 0.5 || each.scrollWidth > each.clientWidth).length;
           }"""
    )
    assert outside == 0


def test_a_batch_of_samples_has_its_certified_accuracy(here: Visit, api: Api) -> None:
    here.page.click("#one-of-each")
    assert here.page.locator(".thumb[aria-pressed=true]").count() == 10
    for name in SHEET.classes[:7]:
        here.page.click(f".thumb:has-text('{name}')", modifiers=["Control"])
    here.ask(procedure="fixed", samples="100")
    here.certify()
    here.page.wait_for_selector(".status.succeeded")
    found = api.client.get(f"/v1/certifications/{here.certification}").json()
    labels, certificates = found["request"]["labels"], found["certificates"]
    assert labels == [7, 8, 9]
    right = sum(each["class_index"] == label for each, label in zip(certificates, labels, strict=True))
    assert f"certified accuracy: {right} of 3 images" in here.text(".readout")
    assert here.page.locator(".curve path.fall").count() == 2
    assert here.page.locator(".batch tbody tr").count() == 3
