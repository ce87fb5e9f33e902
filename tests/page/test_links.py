"""Links to certifications and to single images of them."""

from __future__ import annotations

import pytest

from tests.page.service import ENDLESS, Open, PageService
from tests.support.visit import CLOSE, LIGHT, Visit


def test_a_link_opens_a_certificate_again(here: Visit, visit: Open) -> None:
    here.choose(LIGHT)
    here.certify()
    claim = here.text(".claim")
    here.certification  # noqa: B018
    again = visit(here.page.url)
    assert again.text(".claim") == claim
    here.page.reload()
    assert here.text(".claim") == claim


def test_a_link_opens_what_still_runs(here: Visit, visit: Open, service: PageService) -> None:
    here.ask(**ENDLESS)
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector(".status.running")
    again = visit(here.page.url)
    again.page.wait_for_selector("#answer path.count")
    again.page.click("text=Cancel")
    here.page.wait_for_selector(".status.canceled")


def test_a_link_to_nothing_says_so(visit: Open, service: PageService) -> None:
    opened = visit(f"{service.address}#/certifications/cert_nothing")
    opened.page.wait_for_selector("#answer :text('There is no such certification')")
    astray = visit(f"{service.address}#/certificatons/cert_nothing")
    astray.page.wait_for_selector("#answer :text('#/certificatons/cert_nothing')")


@pytest.mark.parametrize("index", ["-1", "0.5", "1", "first"])
def test_a_link_to_an_image_that_is_not_there_says_so(here: Visit, visit: Open, index: str) -> None:
    here.choose(LIGHT)
    here.certify()
    here.certification  # noqa: B018
    astray = visit(f"{here.page.url}/{index}")
    astray.page.wait_for_selector("#answer :text('There is no such image')")
    astray.page.click("#answer >> text=The image")
    assert "‘light’" in astray.text(".claim")


def test_a_link_is_copied(visit: Open, service: PageService) -> None:
    opened = visit(f"{service.address}", permissions=["clipboard-read", "clipboard-write"])
    opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    opened.ask(ensemble="trivial", radius="0.02")
    opened.choose(LIGHT)
    opened.certify()
    opened.page.wait_for_selector(".claim")
    opened.page.click("text=Copy link")
    opened.page.wait_for_selector("text=The link is copied")
    assert opened.page.evaluate("navigator.clipboard.readText()") == opened.page.url
    opened.page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    opened.page.click("text=Copy link")
    opened.page.wait_for_selector("text=to be copied by hand")
    assert opened.page.evaluate("getSelection().toString()") == opened.page.url


@pytest.mark.parametrize("width", [360, 1200])
def test_a_link_shows_the_answer_and_not_the_form_alone(
    here: Visit, visit: Open, service: PageService, width: int
) -> None:
    here.choose(LIGHT)
    here.certify()
    here.certification  # noqa: B018
    opened = visit(here.page.url, viewport={"width": width, "height": 740})
    opened.page.wait_for_selector(".claim")
    opened.page.wait_for_selector("#plan p")
    title = opened.page.locator("#answer h2").bounding_box()
    assert title is not None
    assert 0 <= title["y"] < 740 / 2
    assert (opened.page.evaluate("scrollY") == 0) == (width == 1200)
