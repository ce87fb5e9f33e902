"""The list of earlier certifications."""

from __future__ import annotations

import json

from tests.page.service import URL, PageService
from tests.support.visit import LIGHT, Visit


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


def test_history_and_the_answer_have_one_word_for_a_status(here: Visit) -> None:
    here.choose(LIGHT)
    here.certify()
    here.page.wait_for_selector(".claim")
    word = here.text(".status")
    here.page.click("nav >> text=History")
    assert here.text(".batch .status") == word
