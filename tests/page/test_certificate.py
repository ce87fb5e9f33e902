"""A certificate on the page: its words, its pixels, its verification and its download."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from smoothcert.certificate import Certificate
from smoothcert.verification import verify
from tests.page.service import PageService
from tests.support.visit import CLOSE, DARK, LIGHT, Visit, grey
from tests.support.worker_networks import SHAPE


def test_a_certificate_is_told_in_words(here: Visit, service: PageService) -> None:
    here.choose(LIGHT)
    here.certify()
    assert here.text(".claim") == (
        "No perturbation of Euclidean length below 0.02, among 8-bit images, changes the answer ‘light’, "
        "with 99.9 % confidence."
    )
    (certificate,) = service.get(here.certification)["certificates"]
    assert here.figure("answer") == "light"
    assert here.figure("radius proved") == "0.02"
    assert here.figure("samples") == str(certificate["samples"])
    assert here.figure("evaluations") == str(certificate["evaluations"])
    assert "does not say that the answer is right" in here.text(".words")


def test_an_image_may_be_dropped_anywhere(here: Visit) -> None:
    here.page.evaluate(
        """(bytes) => {
             const dataTransfer = new DataTransfer();
             dataTransfer.items.add(new File([new Uint8Array(bytes)], "dropped.png", { type: "image/png" }));
             for (const name of ["dragover", "drop"])
               document.body.dispatchEvent(new DragEvent(name, { dataTransfer, bubbles: true, cancelable: true }));
           }""",
        list(LIGHT),
    )
    here.page.wait_for_selector("#chosen :text('dropped.png')")
    here.certify()
    assert "‘light’" in here.text(".claim")


def test_its_length_is_told_in_pixels(here: Visit) -> None:
    here.choose(LIGHT)
    here.certify()
    values = math.prod(SHAPE)
    seen = here.text(".changes")
    assert f"every one of the {values} values by {0.02 * 255 / math.sqrt(values):.3f} levels" in seen
    assert f"one colour value of one pixel by {0.02 * 255:.1f} of 255 levels" in seen


@pytest.mark.parametrize(
    ("norm", "words"),
    [
        ("l2", "of Euclidean length below 2"),
        ("l1", "whose absolute changes add up to less than 2"),
        ("l0", "that changes at most 2 values, whatever they become,"),
        ("linf", "that changes each value by less than 2"),
        ("lp-3", "of size below 2 in the lp-3 norm"),
    ],
)
def test_a_claim_has_the_words_of_its_norm(here: Visit, norm: str, words: str) -> None:
    certificate = {
        "decision": "certified",
        "radius": 2,
        "class_name": "cat",
        "alpha": 0.01,
        "noise": {"name": "speckle", "norm": norm, "rate": 0.5, "depth": 3},
        "provenance": None,
    }
    claim, meaning, changes = here.page.evaluate(
        """async (certificate) => {
             const { claim, meaning } = await import("/page/claims.js");
             const { changesAt } = await import("/page/changes.js");
             const texts = claim(certificate).map((part) => part.textContent ?? part);
             return [texts.join(""), meaning(certificate)[1], changesAt(certificate.noise.norm, 2, [3, 8, 8]).length];
           }""",
        certificate,
    )
    assert claim == f"No perturbation {words} changes the answer ‘cat’, with 99 % confidence."
    assert "under noise (speckle, rate 0.5, depth 3)" in meaning
    assert changes == {"l2": 3, "l1": 2, "l0": 2}.get(norm, 0), "no change is as large as 2 in l-infinity"


def test_a_certificate_about_the_image_alone_claims_no_more(here: Visit) -> None:
    certificate = {
        "decision": "certified",
        "radius": 0,
        "class_name": "cat",
        "alpha": 0.01,
        "noise": {"name": "replacement", "norm": "l0", "keep": 0.5, "levels": 3},
        "provenance": None,
    }
    claim, meaning = here.page.evaluate(
        """async (certificate) => {
             const { claim, meaning } = await import("/page/claims.js");
             const texts = claim(certificate).map((part) => part.textContent ?? part);
             return [texts.join(""), meaning(certificate).join(" ")];
           }""",
        certificate,
    )
    assert claim.startswith("The answer at the image itself is ‘cat’, with 99 % confidence;")
    assert "x′" not in meaning


def test_a_certificate_with_a_remote_member_says_so(here: Visit) -> None:
    member = {"url": "http://127.0.0.1/", "model": "bright", "version": "2"}
    certificate = {
        "decision": "abstain",
        "stop_reason": "exhausted",
        "procedure": {"name": "fixed"},
        "provenance": {"input": {}, "ensemble": {"members": ["a", "b"], "remote": [member]}},
    }
    meaning = here.page.evaluate(
        """async (certificate) => (await import("/page/claims.js")).meaning(certificate)""", certificate
    )
    assert meaning[-1] == (
        "1 of 2 members runs at an endpoint (model bright version 2). The identity of such a member is not pinned: its "
        "digest covers the address and one answer, and not the weights. So the certificate cannot be replayed."
    )


def test_what_abandoning_promises_is_said_by_the_procedure(here: Visit) -> None:
    here.ask(radius="0.04", procedure="sequential, lost-certificate")
    here.choose(CLOSE)
    here.certify()
    assert "the run was given up after" in here.text(".claim")
    promise = "A run that would have ended in a certificate is abandoned with probability at most beta."
    assert f"{promise} Here beta is 0.001." in here.text(".words")


def test_it_is_verified_and_downloaded(here: Visit, tmp_path: Path) -> None:
    here.choose(DARK)
    here.certify()
    here.page.click("text=Verify")
    here.page.wait_for_selector("text=everything in it follows from its counts")
    with here.page.expect_download() as download:
        here.page.click("text=Download JSON")
    download.value.save_as(tmp_path / "certificate.json")
    certificate = Certificate.from_json((tmp_path / "certificate.json").read_text())
    assert certificate.class_name == "dark"
    assert verify(certificate)


def test_an_abstention_says_what_it_means_and_what_not(here: Visit) -> None:
    here.ask(radius="0.04")
    here.choose(CLOSE)
    here.certify()
    assert re.fullmatch(
        r"No certificate: the run was given up after [\d,]+ samples, which do not prove radius 0.04.",
        here.text(".claim"),
    )
    assert here.figure("radius proved") == "none"
    assert here.figure("class tried") == "dark"
    assert "An abstention claims nothing" in here.text(".words")
    assert here.page.locator(".changes").count() == 0


def test_an_abstention_says_what_its_samples_still_prove_and_offers_it(here: Visit, service: PageService) -> None:
    here.ask(radius="0.04", procedure="adaptive", samples="400 800", voting="softmax")
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector(".remains p")
    (certificate,) = service.get(here.certification)["certificates"]
    left = service.client.post("/v1/verify", json=certificate).json()["remainder"]
    assert 0 < left["radius"] < 0.04
    assert (
        f"Its samples still prove that no perturbation of Euclidean length below {left['radius']:g} changes the answer "
        "‘dark’, with 99.8 % confidence: alpha counts twice there"
    ) in here.text(".remains")
    here.page.reload()  # the form has forgotten the question, but the page knows the image
    here.page.click(f".remains button:text('Ask for radius {left['attempt']:g}')")
    here.page.wait_for_selector("#chosen-name:text('image-0.png')")
    assert here.page.locator("[name=radius]").input_value() == f"{left['attempt']:g}"
    assert here.page.locator("[name=ensemble]").input_value() == "trivial"
    assert here.page.locator("[name=samples]").input_value() == "400 800"
    assert here.page.locator("[name=voting]").input_value() == "softmax"
    here.certify()
    here.page.wait_for_selector(".claim.certified")
    (again,) = service.get(here.certification)["certificates"]
    assert again["provenance"]["input"]["sha256"] == certificate["provenance"]["input"]["sha256"], "the same image"
    assert again["target_radius"] == left["attempt"]


def test_an_abstention_that_proves_nothing_says_so(here: Visit) -> None:
    nothing = {"radius": 0, "alpha": 0.002, "name": "dark", "norm": "l2"}
    sentence = here.page.evaluate("""async (nothing) => (await import("/page/claims.js")).still(nothing)""", nothing)
    assert sentence == "Its samples prove no smaller radius either."


def test_changes_that_are_hard_to_see_are_shown_larger_beside_the_true_ones(here: Visit) -> None:
    here.choose(grey(240))
    here.certify()
    here.page.wait_for_selector(".changes .amplified canvas")
    assert here.page.locator(".changes li").count() == here.page.locator(".changes .amplified").count() == 3
    here.page.wait_for_function("document.querySelectorAll('.changes .amplified canvas')[2].width > 100")
    largest = here.page.evaluate(
        """() => [...document.querySelectorAll(".changes li")].map((item) => {
             const values = [...item.querySelectorAll("canvas")].map((canvas) => {
               const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
               return Math.max(...data.filter((_, i) => i % 4 < 3).map((value) => Math.abs(value - 240)));
             });
             return values[1] - values[0];
           })"""
    )
    assert min(largest) > 20, "levels that the eye can tell apart"


def test_an_answer_is_shown_beside_the_image_that_was_sent(here: Visit) -> None:
    here.choose(LIGHT)
    sent = here.page.locator("#chosen-images img").first.get_attribute("src")
    waiting: list[Any] = []
    here.page.route("**/v1/certifications", lambda route: waiting.append(route), times=1)
    with here.page.expect_request("**/v1/certifications"):
        here.certify()
    here.choose(DARK)
    here.page.wait_for_function("src => document.querySelector('#chosen-images img').src !== src", arg=sent)
    waiting[0].continue_()
    assert "‘light’" in here.text(".claim")
    assert here.page.locator("#answer .picture").first.get_attribute("src") == sent


def test_a_question_whose_answer_was_lost_is_certified_once(here: Visit) -> None:
    lost: list[str] = []

    def lose_answer(route: Any) -> None:
        lost.append(route.fetch().json()["id"])
        route.abort()

    here.page.route("**/v1/certifications", lose_answer, times=1)
    here.choose(LIGHT)
    here.certify()
    here.page.wait_for_selector("#refused :text('The server cannot be reached')")
    here.certify()
    assert here.certification == lost[0]
    here.certify()
    here.page.wait_for_function("before => !location.hash.endsWith(before)", arg=lost[0])
    here.complaints.clear()  # Chromium reports the connection that was cut


@pytest.mark.parametrize(("decision", "done"), [("certified", "certified"), ("abstain", "examined")])
def test_a_remark_about_a_resized_image_claims_no_certificate_after_an_abstention(
    here: Visit, decision: str, done: str
) -> None:
    resized = {"source": [64, 32], "box": [16, 0, 48, 32], "size": [8, 8], "method": "box", "by": "Pillow 12"}
    certificate = {
        "decision": decision,
        "procedure": {"name": "fixed"},
        "provenance": {"input": {"resized": resized}, "ensemble": {"members": [""]}},
    }
    (remark,) = here.page.evaluate(
        """async (certificate) => (await import("/page/remarks.js")).remarks(certificate)""", certificate
    )
    assert remark.startswith(f"What was {done} is a resized image")
