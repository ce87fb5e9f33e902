"""The chart of one image: boundaries, counts, intervals."""

from __future__ import annotations

import math

import pytest

from smoothcert.bounds import lower_bound, upper_bound
from tests.page.service import ENDLESS, Open, PageService
from tests.support.visit import CLOSE, LIGHT, Visit


def test_the_chart_moves_while_it_runs_and_stops_when_it_is_canceled(here: Visit, service: PageService) -> None:
    here.ask(**ENDLESS)
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector("#answer path.count")
    first = here.page.locator("#answer path.count").first.get_attribute("d")
    samples = here.figure("samples")
    here.page.wait_for_function(
        "was => document.querySelector('#answer path.count').getAttribute('d') !== was", arg=first
    )
    here.page.wait_for_function(
        "was => document.querySelector('#answer .figures').textContent.includes(was) === false", arg=samples
    )
    assert here.text(".status") == "running"
    here.page.click("text=Cancel")
    here.page.wait_for_selector(".status.canceled")
    assert service.get(here.certification)["status"] == "canceled"
    assert "proves nothing" in here.text(".trouble")
    assert here.page.locator("#answer path.count").first.get_attribute("d"), "what was seen stays"


def test_the_chart_shows_every_look_of_the_certificate(here: Visit, service: PageService) -> None:
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector(".claim")
    stages = service.get(here.certification)["certificates"][0]["stages"]
    newest = stages[-1]
    label = here.page.locator("#answer .chart").get_attribute("aria-label") or ""
    assert f"{newest['count']} of {newest['n']} samples" in label
    assert f"certifies from {newest['certify_at']:,}" in here.text(".readout")
    assert "At all looks together, each end of the interval holds with 99.9 % confidence." in here.text(".readout")
    here.page.click("text=counts and provenance")
    assert here.page.locator("#answer .numbers tbody tr").count() == len(stages)


def test_the_last_interval_begins_at_what_is_proved(here: Visit, service: PageService) -> None:
    here.choose(LIGHT)
    here.certify()
    here.page.wait_for_selector(".claim")
    (certificate,) = service.get(here.certification)["certificates"]
    newest = certificate["stages"][-1]
    question = {"ensemble": "trivial", "radius": 0.02, "procedure": "sequential"}
    looks = len(service.client.post("/v1/plan", json=question).json()["boundaries"])
    assert lower_bound(newest["count"], newest["n"], 0.001 / (2 * looks)) < certificate["p_lower"], "alone it is less"
    here.page.locator(".readout", has_text=f"{newest['count']} of {newest['n']}").wait_for()
    assert f"p_A in [{math.floor(certificate['p_lower'] * 1e5) / 1e5}, " in here.text(".readout")


def test_the_intervals_of_the_chart_are_those_of_the_library(here: Visit, service: PageService) -> None:
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector(".claim")
    (certificate,) = service.get(here.certification)["certificates"]
    looks = service.client.post("/v1/verify", json=certificate).json()["looks"]
    plan = {"ensemble": "trivial", "radius": 0.02, "procedure": "sequential"}
    level = 0.001 / (2 * service.client.post("/v1/plan", json=plan).json()["look_count"])
    assert [(look["n"], look["count"]) for look in looks] == [(s["n"], s["count"]) for s in certificate["stages"]]
    for look in looks:
        bounds = [bound(look["count"], look["n"], level) for bound in (lower_bound, upper_bound)]
        assert look["p_interval"] == pytest.approx(bounds, abs=1e-12)
    first = looks[0]
    here.page.wait_for_selector("#answer .band")
    box = here.page.locator("#answer .chart").bounding_box()
    assert box is not None
    here.page.mouse.move(box["x"] + 50, box["y"] + box["height"] / 2)
    here.page.locator(".readout", has_text=f"{first['count']} of {first['n']}").wait_for()
    low, high = math.floor(first["p_interval"][0] * 1e5) / 1e5, math.ceil(first["p_interval"][1] * 1e5) / 1e5
    assert f"p_A in [{low:g}, {high:g}]" in here.text(".readout")


def test_without_verification_the_chart_has_no_intervals(here: Visit, visit: Open) -> None:
    here.choose(LIGHT)
    here.certify()
    here.page.wait_for_selector(".claim")
    address = here.page.url
    again = visit(address.partition("#")[0])
    again.page.route("**/v1/verify", lambda route: route.fulfill(status=503, body="{}"))
    again.page.goto(address)
    again.page.locator(".readout", has_text=" of ").wait_for()
    again.page.wait_for_selector("#answer circle.now", state="attached")
    assert again.page.locator("#answer circle.now").count() == 1
    assert "p_A in" not in again.text(".readout")
    assert again.page.locator("#answer .bar, #answer .band").count() == 0
    again.complaints.clear()  # Chromium reports the answer 503


@pytest.mark.parametrize("procedure", ["adaptive", "adaptive, kept"])
def test_stages_that_run_show_their_intervals(here: Visit, procedure: str) -> None:
    here.ask(ensemble="moody", procedure=procedure, samples="32 64 1000000", radius="0.02", alpha="1e-15", beta="1e-15")
    here.choose(CLOSE)
    here.certify()
    here.page.locator(".readout", has_text="p_A in [").wait_for()
    here.page.wait_for_function(
        "() => document.querySelectorAll('#answer .bar').length >= 3 || document.querySelector('#answer .band')"
    )
    here.page.click("text=Cancel")
    here.page.wait_for_selector(".status.canceled")


def test_the_class_is_not_being_chosen_once_it_is(here: Visit) -> None:
    reading = {"underWay": {"stage": 0, "looks": [], "trail": []}}
    notes = here.page.evaluate(
        """async (reading) => {
             const { imageReading } = await import("/page/reading.js");
             return [null, "‘light’"].map((of) => imageReading({ ...reading, of }).note);
           }""",
        reading,
    )
    assert notes == ["Choosing the class …", "The class is chosen: ‘light’. Waiting for its count …"]


def test_no_class_is_being_chosen_where_no_samples_do_it(here: Visit) -> None:
    note = here.page.evaluate(
        """async (underWay) => (await import("/page/reading.js")).imageReading({ underWay, of: null }).note""",
        {"stage": 1, "looks": [], "trail": []},
    )
    assert note == "Waiting for the first samples …"


def test_no_confidence_is_stated_where_every_outcome_was_counted(here: Visit) -> None:
    surety = """alpha => import("/page/reading.js").then(({ imageReading }) => imageReading({
      plan: { pooled: true, boundaries: [], p0: 0.5, alpha: 0.001, look_count: 1 },
      certificate: { alpha, p_lower: 0.5, stages: [{ n: 510, count: 283, counts: { 0: 283, 1: 227 } }] },
      verified: [{ p_interval: [0.5549, 0.55491] }],
    }).surety)"""
    sampled = "When all samples are drawn, each end of the interval holds with 99.9 % confidence."
    assert here.page.evaluate(surety, 0.001) == sampled
    assert here.page.evaluate(surety, None) == "Every outcome of the noise is counted, so p_A is known."


def test_the_name_of_an_area_stands_clear_of_its_boundary(here: Visit) -> None:
    """This must hold even if the count may fall so far that the area is thin."""
    looks = [{"n": 32 * i, "certify_at": 32 * i, "abandon_at": 32 * i - 20} for i in range(1, 60)]
    name, boundary = here.page.evaluate(
        """async (looks) => {
             const { Chart } = await import("/page/chart.js"), { planReading } = await import("/page/reading.js");
             const chart = new Chart();
             document.getElementById("answer").replaceChildren(chart.figure);
             chart.show(planReading({ boundaries: looks, p0: 0.9993, pooled: true }));
             while (!chart.drawing.querySelector(".word.certify")) await new Promise(requestAnimationFrame);
             const box = (each) => chart.drawing.querySelector(each).getBoundingClientRect();
             return [box(".word.certify").bottom, box(".boundary.certify").top];
           }""",
        looks,
    )
    assert name <= boundary
