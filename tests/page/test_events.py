"""Connections that break while a certification is followed."""

from __future__ import annotations

from tests.page.service import ENDLESS
from tests.support.visit import CLOSE, LIGHT, Visit


def test_what_could_not_be_canceled_can_be_canceled_again(here: Visit) -> None:
    here.ask(**ENDLESS)
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector(".status.running")
    here.page.route("**/cancel", lambda route: route.abort(), times=1)
    here.page.click("text=Cancel")
    here.page.wait_for_selector(".outcome :text('The server cannot be reached')")
    here.page.click("text=Cancel")
    here.page.wait_for_selector(".status.canceled")
    assert here.page.evaluate("document.activeElement.tagName") == "H2"
    here.complaints.clear()  # Chromium reports the connection that was cut


def test_a_lost_connection_is_told_until_there_is_news(here: Visit) -> None:
    here.page.route("**/events", lambda route: route.abort())
    here.ask(**ENDLESS)
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector("#answer path.count")
    here.context.set_offline(True)
    trouble = here.page.locator(".trouble", has_text="No contact with the server; trying again")
    trouble.wait_for()
    assert "No contact" in here.text("#announcement")
    here.context.set_offline(False)
    trouble.wait_for(state="detached")
    here.page.click("text=Cancel")
    here.page.wait_for_selector(".status.canceled")
    here.complaints.clear()


def test_without_events_it_asks_again_and_again(here: Visit) -> None:
    here.page.route("**/events", lambda route: route.abort())
    here.choose(LIGHT)
    here.certify()
    assert "‘light’" in here.text(".claim")
    here.complaints.clear()  # Chromium reports the connections that were cut


def test_a_stream_that_was_cut_is_resumed(here: Visit) -> None:
    last_ids: list[str | None] = []

    def cut_once(route):  # type: ignore[no-untyped-def]
        last_ids.append(route.request.headers.get("last-event-id"))
        if len(last_ids) == 1:
            route.fulfill(content_type="text/event-stream", body=": still here\n\n")
        else:
            route.continue_()

    here.page.route("**/events", cut_once)
    here.ask(**ENDLESS)
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector("#answer path.count")
    assert last_ids == ["0", "0"]
    here.page.click("text=Cancel")
    here.page.wait_for_selector(".status.canceled")
