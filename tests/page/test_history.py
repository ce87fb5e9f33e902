"""The list of earlier certifications."""

from __future__ import annotations

import json

from tests.page.service import ENDLESS, URL, PageService
from tests.support.visit import CLOSE, DARK, LIGHT, Visit


def test_history_has_all_of_ones_own(here: Visit, service: PageService) -> None:
    body = {"request": json.dumps({"ensemble": "trivial", "radius": 0.02, "procedure": "sequential"})}
    for _ in range(25):
        assert service.client.post(URL, data=body, files={"images": LIGHT}).status_code == 202
    here.page.click("nav >> text=History")
    here.page.wait_for_selector(".batch tbody tr")
    assert here.page.locator(".batch tbody tr").count() == 20
    here.page.locator("text=Older ones").evaluate("button => [button.click(), button.click()]")
    here.page.wait_for_selector(".batch tbody tr:nth-child(25)")
    assert len([each for each in here.requests if "cursor=" in each.url]) == 1, "however often one clicks"
    assert here.page.evaluate("document.activeElement.closest('tr').rowIndex") == 21
    here.page.locator(".batch tbody a").first.click()
    assert "‘light’" in here.text(".claim")


def test_history_shows_what_came_out_and_when_it_is_forgotten(here: Visit) -> None:
    here.choose(LIGHT)
    shown = here.page.locator("#chosen-images img").get_attribute("src")
    here.certify()
    here.page.wait_for_selector(".claim")
    here.ask(radius="0.04")
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector(".title.abstain")
    here.page.click("nav >> text=History")
    here.page.wait_for_selector(".batch tbody tr:nth-child(2) .decision")
    here.page.wait_for_selector(".batch tbody tr:nth-child(1) .decision")
    assert here.page.locator(".batch thead th").all_inner_texts() == [
        "image", "result", "answer", "radius", "ensemble", "forgotten",
    ]  # fmt: skip
    second, first = (cells_of(here, row) for row in (1, 2))
    assert first[1:] == ["certified", "light", "0.02", "trivial optimal", "in 24 hours"]
    assert second[1:] == ["abstained", "–", "–", "trivial optimal", "in 24 hours"]
    assert first[0].startswith("image-0.png")
    assert here.page.locator(".batch tbody tr:nth-child(2) img").get_attribute("src") == shown
    here.page.reload()
    here.page.wait_for_selector(".batch tbody tr:nth-child(2) .decision")
    kept = here.page.locator(".batch tbody tr:nth-child(2) img")
    assert (kept.get_attribute("src") or "").startswith("data:image/png"), "the browser has kept its picture"


def cells_of(visit: Visit, row: int) -> list[str]:
    visit.page.wait_for_selector(f".batch tbody tr:nth-child({row}) > :nth-child(4)")
    cells = visit.page.locator(f".batch tbody tr:nth-child({row}) > *").all_inner_texts()
    return [" ".join(each.split()) for each in cells]


def test_history_counts_what_is_certified_of_a_batch(here: Visit) -> None:
    here.ask(radius="0.04")
    here.choose(DARK, CLOSE, LIGHT)
    here.certify()
    here.page.wait_for_selector(".status.succeeded")
    here.page.click("nav >> text=History")
    here.page.wait_for_selector(".batch tbody tr")
    image, result, _, radius, *_ = cells_of(here, 1)
    assert image.startswith("3 images image-0.png, image-1.png, image-2.png ")
    assert result == "done 2 of 3 certified"
    assert radius == "0.04"
    assert here.page.locator(".batch tbody tr:nth-child(1) img").count() == 3


def test_history_names_the_files_of_a_batch_after_a_reload_too(here: Visit) -> None:
    names = ["first.png", "b" * 200 + ".png", "c" * 60 + ".png", "last.png"]
    here.page.set_input_files("#files", [{"name": name, "mimeType": "image/png", "buffer": LIGHT} for name in names])
    here.certify()
    here.page.wait_for_selector(".status.succeeded")
    here.page.reload()
    here.page.wait_for_selector("table.batch a")
    assert here.page.locator("table.batch a").all_inner_texts() == [*names[:2], "image 3", "image 4"], "256 characters"
    here.page.click("nav >> text=History")
    image, *_ = cells_of(here, 1)
    assert image.startswith(f"4 images first.png, {names[1]}, image 3, … ")
    assert here.overflow() == 0


def test_history_and_the_answer_have_one_word_for_a_status(here: Visit) -> None:
    here.ask(**ENDLESS)
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector(".status.running")
    running = here.page.url
    here.page.click("nav >> text=History")
    assert cells_of(here, 1)[-1] == "–", "only what has ended is forgotten"
    here.page.goto(running)
    here.page.click("text=Cancel")
    here.page.wait_for_selector(".status.canceled")
    word = here.text(".status")
    here.page.click("nav >> text=History")
    assert here.text(".batch .status") == word
