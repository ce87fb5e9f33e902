"""Problems and findings are told in the words of the page, without codes, fields or notation of Python."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from smoothcert.problem import FAILURES
from tests.page.service import Open, PageService
from tests.page.test_examination import CERTIFIED, hand_over
from tests.support.attested import resigned
from tests.support.visit import DARK, LIGHT, Visit, grey

NOTATION = re.compile(r"\w_\w|`|\[\d+\]|\bNone\b|[a-z]\.[a-z]")
"""Notation that only readers of the API understand; p_A is a symbol of the paper."""
BREAKS = grey(85)
"""An image at which the network `moody` raises an error."""


def plain(text: str) -> str:
    """The text without names of files; it must have no such notation."""
    assert not NOTATION.search(re.sub(r"p_A|\w+-\d\.png|\w+\.json", "", text)), text
    return text


def altering(path: str, value: Any) -> Any:
    """Send another certificate for verification than the one that the page has."""

    def alter(route: Any) -> None:
        fields = route.request.post_data_json
        *way, last = re.findall(r"\w+", path)
        place = fields
        for step in way:
            place = place[int(step) if step.isdigit() else step]
        place[last] = value
        route.continue_(post_data=json.dumps(fields))

    return alter


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("stages[0].count", 1, "Stage 1, count: is 1, the counts give"),
        ("p_lower", None, "Lower bound on p_A: is nothing, the counts give"),
        ("class_index", 0, "Class: is 0, the counts give 1"),
        ("provenance.ensemble.consensus", 99, "Provenance, ensemble, consensus: is 99, the ensemble has"),
    ],
)
def test_verify_says_what_is_wrong_in_words(here: Visit, path: str, value: Any, words: str) -> None:
    here.ask(procedure="fixed", samples="100")
    here.choose(LIGHT)
    here.certify()
    here.page.wait_for_selector(".claim")
    here.page.route("**/v1/verify", altering(path, value))
    here.page.click("text=Verify")
    here.page.wait_for_selector(".outcome .wrong li")
    found = here.page.locator(".outcome .wrong li").all_inner_texts()
    assert any(words in plain(each) for each in found), found


def test_verify_all_says_it_in_the_same_words(here: Visit) -> None:
    here.choose(DARK, LIGHT)
    here.certify()
    here.page.wait_for_selector(".status.succeeded")
    here.page.route("**/v1/verify", altering("stages[0].count", 1))
    here.page.click("text=Verify all")
    here.page.wait_for_selector(".outcome .wrong li")
    assert "image-0.png: digest: " in plain(here.text(".outcome"))
    assert "stage 1, count: is 1, the counts give" in here.text(".outcome")


def test_check_a_file_says_it_in_words(visit: Open, service: PageService) -> None:
    opened = visit(f"{service.address}#/verify")
    lie = resigned(CERTIFIED.model_copy(update={"p_lower": None, "class_index": 0}))
    hand_over(opened, "lie.json", lie.to_json())
    words = plain(opened.text(".examined"))
    assert "lower bound on p_A: is nothing, the counts give" in words
    assert "class: is 0, the counts give 1" in words
    fields = json.loads(CERTIFIED.to_json())
    fields["stages"][0]["count"] = "many"
    hand_over(opened, "text.json", json.dumps(fields))
    assert "not a certificate: stage 1, count: must be a whole number, got 'many'" in plain(opened.text(".examined"))


def test_a_certification_that_failed_says_why_without_a_code(here: Visit) -> None:
    here.ask(ensemble="moody", radius="0.02")
    here.choose(BREAKS)
    here.certify()
    here.page.wait_for_selector(".status.failed")
    words = plain(here.text(".trouble"))
    assert "The certification failed: the networks could not be run" in words
    assert "these pixels cannot be borne" in words


def test_the_page_has_words_for_every_failure(here: Visit) -> None:
    shown = """async (error) => { const { failure, problemBox } = await import("/page/problem.js");
                                  return problemBox(failure(error)).textContent; }"""
    for code in FAILURES:
        words = here.page.evaluate(shown, {"code": code, "detail": "It is so."})
        assert re.fullmatch(r"The certification failed: [a-z ]+It is so\.", words), words


def test_a_certification_that_is_not_there_is_told_without_a_code(visit: Open, service: PageService) -> None:
    opened = visit(f"{service.address}#/certifications/cert_{'0' * 32}")
    opened.page.wait_for_selector(".trouble .problem")
    words = opened.text(".trouble").replace(f"cert_{'0' * 32}", "")
    assert "There is no such certification" in plain(words)


def test_what_is_wrong_fits_a_phone_although_digests_are_long(visit: Open, service: PageService) -> None:
    opened = visit(f"{service.address}#/verify", viewport={"width": 390, "height": 844})
    hand_over(opened, "lie.json", CERTIFIED.model_copy(update={"digest": "0" * 64}).to_json())
    assert "0" * 64 in opened.text(".examined")
    assert opened.overflow() == 0
    opened.page.click("nav >> text=Certify >> nth=0")
    opened.ask(ensemble="trivial", radius="0.02")
    opened.choose(LIGHT)
    opened.certify()
    opened.page.wait_for_selector(".claim")
    opened.page.route("**/v1/verify", altering("digest", "0" * 64))
    opened.page.click("text=Verify")
    opened.page.wait_for_selector(".outcome .wrong li")
    assert opened.overflow() == 0
