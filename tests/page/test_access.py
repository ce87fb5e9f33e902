"""Access to the page: by keyboard, on a phone, in light and dark, and quickly."""

from __future__ import annotations

import re

import pytest

from tests.page.service import ENDLESS, Open, PageService
from tests.support.visit import CLOSE, DARK, LIGHT, Visit


def test_everything_can_be_done_with_the_keyboard(here: Visit) -> None:
    page = here.page
    page.on("filechooser", lambda _: None)  # from now on Chromium reports file choosers, after a moment

    def tab_to(selector: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"{selector} is never reached")

    tab_to("#files")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files([{"name": "light.png", "mimeType": "image/png", "buffer": LIGHT}])
    page.wait_for_selector("#chosen-name:text('light.png')")
    tab_to("[name=radius]")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("0.025")
    tab_to("#certify")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert "below 0.025, among 8-bit images, changes" in here.text(".claim")
    assert page.evaluate("document.activeElement.tagName") == "H2"
    tab_to("#answer .actions button")
    assert page.evaluate("document.activeElement.textContent") == "Verify"
    page.keyboard.press("Enter")
    page.wait_for_selector("text=everything in it follows from its counts")
    assert "below 0.025, among 8-bit images, changes" in here.text("#announcement"), (
        "and it is said to those who cannot see it"
    )


def test_every_field_has_a_name(here: Visit) -> None:
    nameless = here.page.evaluate(
        "[...document.querySelectorAll('input, select')].filter((each) => !each.labels.length).map(({ id }) => id)"
    )
    assert nameless == []


def test_a_phone_needs_no_scrolling_to_the_side(visit: Open, service: PageService) -> None:
    opened = visit(service.address, viewport={"width": 360, "height": 740}, has_touch=True)
    opened.page.wait_for_selector("#plan .feasible, #plan .infeasible")
    assert opened.overflow() == 0
    opened.ask(ensemble="trivial", radius="0.02")
    opened.choose(CLOSE)
    opened.certify()
    opened.page.wait_for_selector(".claim")
    opened.page.click("text=counts and provenance")
    assert opened.overflow() == 0
    opened.ask(alpha="two")
    opened.page.wait_for_selector("#plan .problem")
    assert opened.overflow() == 0
    opened.ask(alpha="0.001", procedure="fixed", samples="500")
    opened.choose(DARK, LIGHT, CLOSE)
    opened.certify()
    opened.page.wait_for_selector(".batch")
    assert opened.overflow() == 0
    for path in ("#/history", "docs"):
        opened.page.goto(service.address + path)
        opened.page.wait_for_selector(".batch tbody tr, #document section")
        assert opened.overflow() == 0, path
        hidden = "[...document.querySelectorAll('.scroll')].map((each) => each.scrollWidth - each.clientWidth)"
        assert not any(opened.page.evaluate(hidden)), "nothing of the history is out of sight"


def luminance(colour: str) -> float:
    red, green, blue = (int(value) / 255 for value in re.findall(r"\d+", colour)[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_light_by_day_and_dark_by_night(visit: Open, service: PageService, scheme: str) -> None:
    opened = visit(service.address, color_scheme=scheme)
    opened.page.wait_for_selector("#plan p")
    style = "getComputedStyle(document.body)"
    paper, ink = (luminance(opened.page.evaluate(f"{style}.{each}")) for each in ("backgroundColor", "color"))
    assert (paper > 0.8 > 0.2 > ink) if scheme == "light" else (paper < 0.2 < 0.8 < ink)


def test_nothing_moves_for_those_who_do_not_want_it(visit: Open, service: PageService) -> None:
    names = {}
    for motion in ("no-preference", "reduce"):
        opened = visit(service.address, reduced_motion=motion)
        opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
        opened.ask(**ENDLESS)
        opened.choose(CLOSE)
        opened.certify()
        opened.page.wait_for_selector("circle.now.running")
        names[motion] = opened.page.evaluate("getComputedStyle(document.querySelector('circle.now')).animationName")
        opened.page.click("text=Cancel")
        opened.page.wait_for_selector(".status.canceled")
    assert names == {"no-preference": "breathe", "reduce": "none"}


def test_the_page_is_small_and_all_of_it_is_ours(visit: Open, service: PageService) -> None:
    opened = visit(service.address)
    opened.page.wait_for_selector("#plan p")
    opened.page.wait_for_load_state("networkidle")
    sizes = {each.url: each.sizes()["responseBodySize"] for each in opened.requests}
    assert len(sizes) > 10
    assert sum(sizes.values()) < 110_000, sizes
    markup = service.client.get("/").text
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=", markup), "nothing is inline"
