"""The API key, where the service needs one."""

from __future__ import annotations

from tests.page.service import KEY, Open, PageService
from tests.support.visit import LIGHT


def test_a_key_is_asked_for_and_kept_in_this_tab_alone(visit: Open, service: PageService) -> None:
    opened = visit(service.locked)
    page = opened.page
    page.wait_for_selector("#key :text('A valid API key is needed')")
    page.fill("#key-field", "sk_wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("#key :text('the key is not known here')")
    page.fill("#key-field", "sk_schlüssel")
    page.keyboard.press("Enter")
    page.wait_for_selector("#key :text('Its character 8 is U+00FC')")
    page.fill("#key-field", KEY)
    page.click("text=Use it")
    page.wait_for_selector("#key", state="hidden")
    assert page.evaluate("document.activeElement.id") == "files"
    opened.ask(ensemble="trivial", radius="0.02")
    opened.choose(LIGHT)
    opened.certify()
    assert "‘light’" in opened.text(".claim")
    assert page.evaluate("sessionStorage['smoothcert.key']") == KEY
    assert sorted(page.evaluate("Object.keys(sessionStorage)")) == ["smoothcert.key", "smoothcert.pictures"]
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    assert all(KEY not in each.url for each in opened.requests)
    page.click("text=Forget key")
    page.wait_for_selector("#key :text('A valid API key is needed')")
    assert page.evaluate("sessionStorage.length") == 0
