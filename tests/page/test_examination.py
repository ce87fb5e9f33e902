"""A certificate file from somebody else, examined on the page."""

from __future__ import annotations

import json
from pathlib import Path

from app.routes.examination import MOST_BYTES
from tests.page.service import RING, Open, PageService
from tests.support.attested import complete, resigned, sealed
from tests.support.visit import Visit

CERTIFIED = complete(0)
ATTESTED = sealed(CERTIFIED, RING)
CLAIM = "No perturbation of Euclidean length below 0.252793"


def hand_over(opened: Visit, name: str, text: str) -> None:
    file = {"name": name, "mimeType": "application/octet-stream", "buffer": text.encode()}
    opened.page.set_input_files("#certificates", [file])
    opened.page.wait_for_selector(f".examined h3:has-text('{name}')")


def answers(opened: Visit) -> dict[str, str]:
    """The answers about signature, digest and counts."""
    found = opened.page.evaluate(
        "[...document.querySelectorAll('.examined dt')].map((each) => [each.textContent, each.nextSibling.textContent])"
    )
    return {name: text.partition(" ")[0] for name, text in found}


def test_a_visitor_without_an_account_has_a_file_examined(visit: Open, service: PageService) -> None:
    opened = visit(f"{service.locked}#/verify")
    hand_over(opened, "signed.intoto.jsonl", ATTESTED + "\n")
    assert opened.text(".examined h3") == "Nothing is wrong with signed.intoto.jsonl"
    assert answers(opened) == {"Signature": "yes", "Digest": "yes", "Counts": "yes"}
    assert opened.text(".claim").startswith(CLAIM)
    assert "By the service of the page, with the key" in opened.text(".examined dl")
    assert opened.text("#announcement") == "Nothing is wrong with signed.intoto.jsonl"
    assert opened.overflow() == 0
    hand_over(opened, "altered.json", ATTESTED.replace("A", "B", 1))
    assert opened.text(".examined h3") == "Something is wrong with altered.json"
    assert answers(opened)["Digest"] == "no"
    assert opened.page.locator(".claim").count() == 0
    hand_over(opened, "bare.json", CERTIFIED.to_json())
    assert answers(opened) == {"Signature": "unknown", "Digest": "yes", "Counts": "yes"}
    lie = resigned(CERTIFIED.model_copy(update={"radius": 0.9}))
    hand_over(opened, "lie.json", sealed(lie, RING))
    assert answers(opened) == {"Signature": "yes", "Digest": "yes", "Counts": "no"}
    assert "radius: is 0.9, the counts give" in opened.text(".examined dl")
    worse = resigned(CERTIFIED.model_copy(update={"radius": 0.9, "p_lower": 0.999}))
    hand_over(opened, "worse.json", worse.to_json())
    for sentence in ("radius: is 0.9", "lower bound on p_A: is 0.999"):
        assert opened.text(".examined").count(sentence) == 1


def test_a_certificate_may_be_dropped_anywhere(here: Visit) -> None:
    several = json.dumps([complete(seed).model_dump(mode="json") for seed in range(3)])
    here.page.evaluate(
        """(text) => {
             const dataTransfer = new DataTransfer();
             dataTransfer.items.add(new File([text], "dropped.json", { type: "application/json" }));
             for (const name of ["dragover", "drop"])
               document.body.dispatchEvent(new DragEvent(name, { dataTransfer, bubbles: true, cancelable: true }));
           }""",
        several,
    )
    here.page.wait_for_selector(".examined h3")
    assert here.text(".examined h3") == "Nothing is wrong with dropped.json (3 certificates)"
    assert here.page.url.endswith("#/verify")
    assert here.page.locator("#chosen").is_hidden(), "it is not taken for an image"
    assert here.text("nav [aria-current]") == "Check a file"


def test_the_page_checks_what_it_let_one_download(here: Visit) -> None:
    here.page.click("nav >> text=Check a file")
    hand_over(here, "<b>.json", "{}")
    assert here.text(".examined h3") == "Something is wrong with <b>.json"


def test_a_file_that_is_too_large_is_not_sent(visit: Open, service: PageService) -> None:
    """The server would end the connection, and the browser would say that it cannot be reached."""
    opened = visit(f"{service.locked}#/verify")
    hand_over(opened, "large.json", " " * (MOST_BYTES + 1))
    assert opened.text(".examined .problem-title") == "The file is too large"
    assert "has 4,000,001 bytes, and at most 4,000,000 are checked here" in opened.text(".examined .problem")
    script = Path(__file__).parents[2] / "app" / "page" / "examination.js"
    assert f"MOST_BYTES = {MOST_BYTES:_};" in script.read_text()


def test_a_file_with_a_byte_order_mark_is_told_in_words(visit: Open, service: PageService) -> None:
    opened = visit(f"{service.locked}#/verify")
    hand_over(opened, "marked.json", "\ufeff" + ATTESTED)
    assert "it begins with a byte-order mark" in opened.text(".examined")
