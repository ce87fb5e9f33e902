"""The page in a real Chromium, on a real service with small networks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.http.authentication import digest
from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.certificate import Certificate
from smoothcert.verification import verify
from tests.support.api import Api, picture
from tests.support.visit import CLOSE, DARK, LIGHT, Visit, grey
from tests.support.whole import whole_service
from tests.support.worker_networks import SHAPE
from tests.support.zoo import SIGMA, make_zoo

KEY = "sk_of-the-tests"
URL = "/v1/certifications"
ENDLESS = {"ensemble": "moody", "procedure": "fixed", "samples": "1000000"}
Open = Callable[..., Visit]


class Service:
    """The addresses of the same service, without keys and with them, and a client to the first."""

    def __init__(self, api: Api, locked: Api) -> None:
        self.client = api.client
        self.address, self.locked = (f"http://127.0.0.1:{each.port}/" for each in (api, locked))

    def said(self, certification: str) -> dict:  # type: ignore[type-arg]
        return self.client.get(f"{URL}/{certification}").json()


@pytest.fixture(scope="module")
def service(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("page")
    keys = f"me:{digest(KEY)}"
    with (
        whole_service(folder, make_zoo(folder / "zoo")) as api,
        Api(api.redis_url, folder, api_keys=keys) as locked,
    ):
        yield Service(api, locked)


@pytest.fixture
def here(visit: Open, service: Service) -> Visit:
    """The page, with a question that the small networks answer at once."""
    opened = visit(service.address)
    opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    opened.ask(ensemble="trivial", radius="0.02")
    return opened


# --- one image


def test_a_certificate_is_told_in_words(here: Visit, service: Service) -> None:
    here.choose(LIGHT)
    here.certify()
    assert here.text(".claim") == (
        "No perturbation of Euclidean length below 0.02 changes the answer ‘light’, with 99.9 % confidence."
    )
    (certificate,) = service.said(here.certification)["certificates"]
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
        r"No certificate: [\d,]+ samples show that radius 0.04 can hardly be proved here.", here.text(".claim")
    )
    assert here.figure("radius proved") == "none"
    assert here.figure("answer") == "dark"
    assert "An abstention claims nothing" in here.text(".words")
    assert here.page.locator(".changes").count() == 0


def test_the_chart_moves_while_it_runs_and_stops_when_it_is_canceled(here: Visit, service: Service) -> None:
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
    assert service.said(here.certification)["status"] == "canceled"
    assert "proves nothing" in here.text(".trouble")
    assert here.page.locator("#answer path.count").first.get_attribute("d"), "what was seen stays"


def test_the_chart_shows_every_look_of_the_certificate(here: Visit, service: Service) -> None:
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector(".claim")
    stages = service.said(here.certification)["certificates"][0]["stages"]
    newest = stages[-1]
    label = here.page.locator("#answer .chart").get_attribute("aria-label") or ""
    assert f"{newest['count']} of {newest['n']} samples" in label
    assert f"certifies from {newest['certify_at']:,}" in here.text(".readout")
    assert "At all looks together, each end of the interval holds with 99.9 % confidence." in here.text(".readout")
    here.page.click("text=counts and provenance")
    assert here.page.locator("#answer .numbers tbody tr").count() == len(stages)


def test_the_last_interval_begins_at_what_is_proved(here: Visit, service: Service) -> None:
    here.choose(LIGHT)
    here.certify()
    here.page.wait_for_selector(".claim")
    (certificate,) = service.said(here.certification)["certificates"]
    newest = certificate["stages"][-1]
    asked = {"ensemble": "trivial", "radius": 0.02, "procedure": "sequential"}
    looks = len(service.client.post("/v1/plan", json=asked).json()["boundaries"])
    assert lower_bound(newest["count"], newest["n"], 0.001 / (2 * looks)) < certificate["p_lower"], "alone it is less"
    here.page.locator(".readout", has_text=f"{newest['count']} of {newest['n']}").wait_for()
    assert f"p_A in [{math.floor(certificate['p_lower'] * 1e5) / 1e5}, " in here.text(".readout")


def test_the_class_is_not_being_chosen_once_it_is(here: Visit) -> None:
    asked = {"request": {"procedure": {"name": "sequential"}, "alpha": 0.001}, "underWay": {"looks": [], "trail": []}}
    notes = here.page.evaluate(
        """async (asked) => {
             const { imageReading } = await import("/page/reading.js");
             return [null, "‘light’"].map((of) => imageReading({ ...asked, of }).note);
           }""",
        asked,
    )
    assert notes == ["Choosing the class …", "The class is chosen: ‘light’. Waiting for its count …"]


def test_bounds_in_the_browser_are_those_of_the_library(here: Visit) -> None:
    asked = [[64, 64, 0.001], [0, 32, 0.001], [5, 10, 0.05], [852, 1000, 1e-6], [117_374, 131_100, 0.001]]
    found = here.page.evaluate(
        """async (asked) => {
             const { lowerBound, upperBound } = await import("/page/bounds.js");
             return asked.map((each) => [lowerBound(...each), upperBound(...each)]);
           }""",
        asked,
    )
    for (count, n, alpha), bounds in zip(asked, found, strict=True):
        count, n = int(count), int(n)
        assert bounds == pytest.approx([lower_bound(count, n, alpha), upper_bound(count, n, alpha)], abs=1e-8)


# --- the plan, and what is refused


def test_the_plan_comes_as_one_types(here: Visit, service: Service) -> None:
    for radius in (0.02, 0.5):
        here.ask(radius=str(radius))
        asked = {"ensemble": "trivial", "radius": radius, "procedure": "sequential"}
        said = service.client.post("/v1/plan", json=asked).json()
        here.page.wait_for_selector(f"#plan :text('{said['reason'][1:]}')")
        assert ("Can be proved" in here.text("#plan")) == said["feasible"]
        assert str(said["largest_radius"]) in here.text("#plan")
        assert f"{said['most_samples']:,}" in here.text("#plan")
    assert [each for each in here.requests if each.url.endswith("/v1/plan")]


def test_the_plan_of_a_fixed_procedure_tells_its_reach_and_one_time(here: Visit, service: Service) -> None:
    here.ask(procedure="fixed", samples="500")
    procedure = {"name": "fixed", "n": 500}
    plan = service.client.post("/v1/plan", json={"ensemble": "trivial", "procedure": procedure}).json()
    here.page.wait_for_selector(f"#plan :text('Up to radius {plan['largest_radius']}')")
    told = here.page.evaluate(
        """async ([plan, procedure]) =>
             (await import("/page/plan.js")).planBox(plan, procedure).map(({ textContent }) => textContent)""",
        [plan | {"seconds": {"best": 1440.0, "worst": 1441.0}}, procedure],
    )
    assert told[-1] == "One image alone takes 24 min."


def test_a_wrong_field_is_marked_and_the_problem_shown_as_it_is(here: Visit, service: Service) -> None:
    here.ask(alpha="two")
    said = service.client.post("/v1/plan", json={"ensemble": "trivial", "radius": 0.02, "alpha": "two"}).json()
    for word in (said["title"], said["detail"], said["code"]):
        here.page.wait_for_selector(f"#plan :text({json.dumps(word)})")
    assert here.page.locator("[name=alpha]").get_attribute("aria-invalid") == "true"
    here.ask(alpha="0.001")
    here.page.wait_for_selector("#plan .feasible")
    assert here.page.locator("[aria-invalid]").count() == 0


def test_a_radius_out_of_reach_is_refused_as_the_server_says(here: Visit) -> None:
    here.ask(radius="0.5")
    here.choose(LIGHT)
    here.certify()
    here.page.wait_for_selector("#refused :text('The radius can never be proved like this')")
    assert "radius_out_of_reach" in here.text("#refused")
    assert "is 0.5; the largest that can be proved" in here.text("#refused")
    assert "#/certifications" not in here.page.url
    assert here.page.evaluate("document.activeElement.id") == "certify"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"not an image", "image-0.png|images"),
        (picture(size=(9, 8)), "is 9 x 8"),
        (picture(mode="RGBA", size=(8, 8)), "convert"),
    ],
    ids=["text", "size", "alpha"],
)
def test_a_file_that_cannot_be_certified_is_refused(here: Visit, data: bytes, said: str) -> None:
    here.choose(data)
    here.certify()
    here.page.wait_for_selector("#refused .problem")
    assert "invalid_image" in here.text("#refused")
    assert re.search(said, here.text("#refused"))


def test_of_a_batch_the_wrong_file_is_named_and_what_would_help_is_shown(here: Visit) -> None:
    here.choose(LIGHT, picture(mode="RGBA", size=(8, 8)))
    assert not here.page.is_visible("[name=convert]")
    here.certify()
    here.page.wait_for_selector("#refused :text('image-1.png (images.1): is RGBA')")
    here.page.locator("[name=convert]").select_option("rgb")
    here.certify()
    here.page.wait_for_selector(".batch")


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(DARK + b"more")], ids=["gone", "changed"])
def test_a_file_that_cannot_be_read_any_more_is_named(
    here: Visit, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    path = tmp_path / "mine.png"
    path.write_bytes(LIGHT)
    here.page.set_input_files("#files", path)
    here.page.locator("#chosen-name", has_text="mine.png").wait_for()
    harm(path)
    here.certify()
    here.page.wait_for_selector("#refused :text('mine.png was changed, moved or deleted after it was chosen')")


def test_without_an_image_it_says_so(here: Visit) -> None:
    here.certify()
    assert "There is no image yet" in here.text("#refused")


def test_what_is_named_like_markup_stays_text(here: Visit) -> None:
    name = "<img src=x onerror=alert(1)>.png"
    here.page.set_input_files("#files", [{"name": name, "mimeType": "image/png", "buffer": LIGHT}])
    here.page.locator("#chosen-name", has_text=".png").wait_for()
    assert here.text("#chosen-name") == name
    assert here.page.locator("[onerror]").count() == 0


# --- links, history, news


def test_a_link_opens_a_certificate_again(here: Visit, visit: Open) -> None:
    here.choose(LIGHT)
    here.certify()
    claim = here.text(".claim")
    here.certification  # noqa: B018
    again = visit(here.page.url)
    assert again.text(".claim") == claim
    here.page.reload()
    assert here.text(".claim") == claim


def test_a_link_opens_what_still_runs(here: Visit, visit: Open, service: Service) -> None:
    here.ask(**ENDLESS)
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector(".status.running")
    again = visit(here.page.url)
    again.page.wait_for_selector("#answer path.count")
    again.page.click("text=Cancel")
    here.page.wait_for_selector(".status.canceled")


def test_a_link_to_nothing_says_so(visit: Open, service: Service) -> None:
    opened = visit(f"{service.address}#/certifications/cert_nothing")
    opened.page.wait_for_selector("#answer :text('There is no such certification')")
    astray = visit(f"{service.address}#/certificatons/cert_nothing")
    astray.page.wait_for_selector("#answer :text('#/certificatons/cert_nothing')")


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
    here.complaints.clear()  # Chromium tells of the connection that was cut


@pytest.mark.parametrize("index", ["-1", "0.5", "1", "first"])
def test_a_link_to_an_image_that_is_not_there_says_so(here: Visit, visit: Open, index: str) -> None:
    here.choose(LIGHT)
    here.certify()
    here.certification  # noqa: B018
    astray = visit(f"{here.page.url}/{index}")
    astray.page.wait_for_selector("#answer :text('There is no such image')")
    astray.page.click("#answer >> text=The image")
    assert "‘light’" in astray.text(".claim")


def test_a_link_is_copied(visit: Open, service: Service) -> None:
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
    here.complaints.clear()  # Chromium tells of the connection that was cut


def test_a_lost_connection_is_told_until_there_is_news(here: Visit) -> None:
    here.page.route("**/events", lambda route: route.abort())
    here.ask(**ENDLESS)
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector("#answer path.count")
    here.context.set_offline(True)
    trouble = here.page.locator(".trouble", has_text="No contact with the server; trying again")
    trouble.wait_for()
    assert "No contact" in here.text("#said")
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
    here.complaints.clear()  # Chromium tells of the connections that were cut


def test_a_stream_that_was_cut_is_resumed(here: Visit) -> None:
    told: list[str | None] = []

    def cut_once(route):  # type: ignore[no-untyped-def]
        told.append(route.request.headers.get("last-event-id"))
        if len(told) == 1:
            route.fulfill(content_type="text/event-stream", body=": still here\n\n")
        else:
            route.continue_()

    here.page.route("**/events", cut_once)
    here.ask(**ENDLESS)
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector("#answer path.count")
    assert told == ["0", "0"]
    here.page.click("text=Cancel")
    here.page.wait_for_selector(".status.canceled")


def test_history_has_all_of_ones_own(here: Visit, service: Service) -> None:
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


# --- many images


def test_a_batch_is_a_table_and_a_curve(here: Visit, service: Service) -> None:
    here.ask(procedure="fixed", samples="500")
    here.choose(DARK, LIGHT, grey(125), DARK)
    here.certify()
    here.page.wait_for_selector(".status.succeeded")
    certificates = service.said(here.certification)["certificates"]
    rows = here.page.locator(".batch tbody tr").all_inner_texts()
    for i, (row, certificate) in enumerate(zip(rows, certificates, strict=True)):
        assert row.split() == [
            f"image-{i}.png",
            "certified",
            certificate["class_name"],
            str(certificate["radius"]),
            str(certificate["samples"]),
        ]
    assert here.page.locator(".curve path.fall").count() == 1, "labels are not known"
    assert "certified: 4 of 4 images, 100 %" in here.text(".readout")
    here.page.click("text=image-2.png")
    assert "‘light’" in here.text(".claim")
    here.page.click("text=All 4 images")
    here.page.wait_for_selector(".batch")


def test_the_curve_falls_where_radii_end(here: Visit) -> None:
    corners = here.page.evaluate(
        """async () => (await import("/page/curve.js")).falling([0.5, 0.25, 0.5], 4)""",
    )
    radii = [0.25, 0.5, 0.5]
    for radius in (0.0, 0.1, 0.25, 0.3, 0.5, 0.6):
        share = sum(each >= radius for each in radii) / 4
        before = [height for place, height in corners if place < radius or (place, radius) == (0, 0)]
        assert before[-1] == share


# --- keys


def test_a_key_is_asked_for_and_kept_in_this_tab_alone(visit: Open, service: Service) -> None:
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
    assert page.evaluate("Object.values(sessionStorage)") == [KEY]
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    assert all(KEY not in each.url for each in opened.requests)
    page.click("text=Forget key")
    page.wait_for_selector("#key :text('A valid API key is needed')")


# --- for everybody


def test_everything_can_be_done_with_the_keyboard(here: Visit) -> None:
    page = here.page
    page.on("filechooser", lambda _: None)  # from now on: Chromium takes a moment to offer them to us

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
    tab_to("[name=radius]")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("0.025")
    tab_to("#certify")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert "below 0.025 changes" in here.text(".claim")
    assert page.evaluate("document.activeElement.tagName") == "H2"
    tab_to("#answer .actions button")
    assert page.evaluate("document.activeElement.textContent") == "Verify"
    page.keyboard.press("Enter")
    page.wait_for_selector("text=everything in it follows from its counts")
    assert "below 0.025 changes" in here.text("#said"), "and it is said to those who cannot see it"


def test_every_field_has_a_name(here: Visit) -> None:
    nameless = here.page.evaluate(
        "[...document.querySelectorAll('input, select')].filter((each) => !each.labels.length).map(({ id }) => id)"
    )
    assert nameless == []


def test_a_phone_needs_no_scrolling_to_the_side(visit: Open, service: Service) -> None:
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


@pytest.mark.parametrize("width", [360, 1200])
def test_a_link_shows_the_answer_and_not_the_form_alone(here: Visit, visit: Open, service: Service, width: int) -> None:
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


def luminance(colour: str) -> float:
    red, green, blue = (int(value) / 255 for value in re.findall(r"\d+", colour)[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_light_by_day_and_dark_by_night(visit: Open, service: Service, scheme: str) -> None:
    opened = visit(service.address, color_scheme=scheme)
    opened.page.wait_for_selector("#plan p")
    style = "getComputedStyle(document.body)"
    paper, ink = (luminance(opened.page.evaluate(f"{style}.{each}")) for each in ("backgroundColor", "color"))
    assert (paper > 0.8 > 0.2 > ink) if scheme == "light" else (paper < 0.2 < 0.8 < ink)


def test_nothing_moves_for_those_who_do_not_want_it(visit: Open, service: Service) -> None:
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


def test_the_page_is_small_and_all_of_it_is_ours(visit: Open, service: Service) -> None:
    opened = visit(service.address)
    opened.page.wait_for_selector("#plan p")
    opened.page.wait_for_load_state("networkidle")
    sizes = {each.url: each.sizes()["responseBodySize"] for each in opened.requests}
    assert len(sizes) > 10
    assert sum(sizes.values()) < 100_000, sizes
    markup = service.client.get("/").text
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=", markup), "nothing is inline"


def test_sigma_of_another_training_is_allowed_by_a_tick(here: Visit) -> None:
    assert not here.page.is_visible("#mismatch")
    here.ask(sigma=str(2 * SIGMA))
    here.page.wait_for_selector("#plan :text('trained for another sigma')")
    here.page.check("[name=mismatch]")
    here.page.wait_for_selector("#plan .feasible")
