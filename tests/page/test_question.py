"""The form: the plan that is shown while it is filled in, and the refusals."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pytest
from PIL import Image

from smoothcert.boundaries import Boundaries
from smoothcert.choices import ProcedureCard, ProcedureList
from smoothcert.noise import Noise
from smoothcert.procedures import Parameters, Procedure
from tests.page.service import Open, PageService
from tests.support.api import encoded
from tests.support.visit import LIGHT, Visit
from tests.support.worker_networks import SHAPE
from tests.support.zoo import SIGMA

if TYPE_CHECKING:
    from playwright.sync_api import Request


def test_the_plan_comes_as_one_types(here: Visit, service: PageService) -> None:
    for radius, sentence in ((0.02, "Radius 0.02 is proved if p_A is shown to be at least 0.841345."), (0.5, "")):
        here.ask(radius=str(radius))
        question = {"ensemble": "trivial", "radius": radius, "procedure": "optimal"}
        answer = service.client.post("/v1/plan", json=question).json()
        here.page.wait_for_selector("#plan .feasible" if answer["feasible"] else "#plan .infeasible")
        assert ("Can be proved" in here.text("#plan")) == answer["feasible"]
        assert sentence in here.text("#plan")
        assert str(answer["largest_radius"]) in here.text("#plan")
        assert f"{answer['most_samples']:,}" in here.text("#plan")
    assert [each for each in here.requests if each.url.endswith("/v1/plan")]


def test_the_plan_of_a_fixed_procedure_tells_its_reach_and_one_time(here: Visit, service: PageService) -> None:
    here.ask(procedure="fixed", samples="500")
    procedure = {"name": "fixed", "n": 500}
    plan = service.client.post("/v1/plan", json={"ensemble": "trivial", "procedure": procedure}).json()
    here.page.wait_for_selector(f"#plan :text('Up to radius {plan['largest_radius']}')")
    texts = here.page.evaluate(
        """async ([plan, procedure]) =>
             (await import("/page/plan.js")).planBox(plan, procedure).map(({ textContent }) => textContent)""",
        [plan | {"seconds": {"best": 1440.0, "expected": 1440.0, "worst": 1441.0}}, procedure],
    )
    assert "24 min for one image alone." in texts


def test_the_expected_time_comes_first_and_the_worst_case_small(here: Visit, service: PageService) -> None:
    here.page.wait_for_selector("#plan .duration")
    question = {"ensemble": "trivial", "radius": 0.02, "procedure": "optimal"}
    plan = service.client.post("/v1/plan", json=question).json()
    assert 0 < plan["seconds"]["best"] <= plan["seconds"]["expected"] < plan["seconds"]["worst"]
    shown = """async (plan) => {
             const box = (await import("/page/plan.js")).planBox(plan, { name: "optimal" });
             const { children } = box.find(({ className }) => className === "duration");
             return [...children].map((each) => [each.tagName, each.className, each.textContent]);
           }"""
    short = here.page.evaluate(shown, plan | {"seconds": {"best": 0.9, "expected": 0.5, "worst": 9.0}})
    assert [words for _, _, words in short] == [
        "Less than a second for one clear image alone. ",
        "At best less than a second; never more than 9 s, if nothing decides it before the last sample.",
    ]
    duration = here.page.evaluate(shown, plan | {"seconds": {"best": 2.1, "expected": 2.5, "worst": 6120.0}})
    assert duration == [
        ["STRONG", "", "About 2.5 s for one clear image alone. "],
        ["SPAN", "fine", "At best 2.1 s; never more than 1.7 h, if nothing decides it before the last sample."],
    ]


def test_a_wrong_field_is_marked_and_said_in_the_words_of_the_form(here: Visit) -> None:
    here.ask(alpha="two")
    here.page.wait_for_selector("#plan .problem")
    assert here.text("#plan").split("\n\n") == ["Something in the form is wrong", "Alpha: must be a number, got 'two'"]
    assert here.page.locator("[name=alpha]").get_attribute("aria-invalid") == "true"
    here.ask(alpha="0.001")
    here.page.wait_for_selector("#plan .feasible")
    assert here.page.locator("[aria-invalid]").count() == 0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"alpha": "0"}, "Alpha: must be at least 10⁻²⁰, got 0"),
        ({"alpha": "1"}, "Alpha: must be less than 1, got 1"),
        ({"alpha": "1e-20"}, "Alpha: is 10⁻²⁰, of which a look at one of 1 images gets less than 10⁻²⁰"),
        ({"procedure": "sequential, strict", "samples": "0"}, "Most samples: must be at least 1, got 0"),
        (
            {"procedure": "sequential, strict", "samples": "20000000"},
            "Most samples: must be at most 10,000,000, got 20,000,000",
        ),
        ({"procedure": "adaptive", "samples": "10 many"}, "Stages: must be a whole number, got 'many'"),
        ({"noise.sigma": "wide"}, "Sigma: must be a number, got 'wide'"),
        ({"noise.sigma": "1"}, "tick ‘even though it was trained for another noise’ to allow it"),
        ({"radius": "-1"}, "Radius: must be at least 0, got -1"),
    ],
)
def test_messages_have_the_words_of_the_form(here: Visit, fields: dict[str, str], words: str) -> None:
    here.ask(**fields)
    here.page.wait_for_selector(f"#plan .problem :text({json.dumps(words, ensure_ascii=False)})")
    shown = here.text("#plan")
    assert not re.search(r"_|`|procedure\.|Input should", shown), shown


def test_an_image_of_another_kind_is_refused_in_the_words_of_the_form(here: Visit) -> None:
    here.choose(encoded(Image.new("L", SHAPE[:0:-1])))
    here.certify()
    here.page.wait_for_selector("#refused .problem")
    assert "‘Images of another kind are converted to RGB’ changes that" in here.text("#refused")
    assert "convert`" not in here.text("#refused")
    here.ask(convert="rgb")
    here.certify()
    here.page.wait_for_selector(".claim")


def test_numbers_may_have_a_decimal_comma_and_thousands(here: Visit) -> None:
    with here.page.expect_request(plan_with("100000")) as planned:
        here.ask(radius="0,025", alpha="0,01", procedure="sequential, strict", samples="100,000")
    posted = planned.value.post_data_json
    assert (posted["radius"], posted["alpha"], posted["procedure"]["max_samples"]) == (0.025, 0.01, 100_000)
    here.page.wait_for_selector("#plan :text('Radius 0.025 is proved')")


def test_a_radius_out_of_reach_comes_with_what_could_be_asked_instead(here: Visit, service: PageService) -> None:
    here.ask(radius="0.1", procedure="sequential, strict")
    here.page.wait_for_selector("#plan .infeasible :text('Radius 0.1')")
    question = {"ensemble": "trivial", "radius": 0.1, "procedure": "sequential"}
    plan = service.client.post("/v1/plan", json=question).json()
    shown = here.text("#plan .infeasible p")
    assert shown == (
        f"Not with this budget. Radius 0.1 needs p_A ≥ 1 − 2.9 · 10⁻⁷, which takes {plan['samples_needed']:,} samples "
        "that all agree; this service allows at most 1,000,000."
    )
    assert 1 - plan["p0"] == pytest.approx(2.9e-7, rel=0.02)
    here.choose(LIGHT)
    here.certify()
    here.page.wait_for_selector("#refused :text('Not with this budget.')")
    assert "#/certifications" not in here.page.url
    assert here.page.evaluate("document.activeElement.id") == "certify"
    here.page.click(f"#refused button:text('Ask for radius {plan['largest_radius']}')")
    here.page.wait_for_selector("#plan .feasible")
    assert here.text("#refused") == ""
    assert here.page.locator("[name=radius]").input_value() == str(plan["largest_radius"])


def test_the_budget_that_a_radius_needs_is_a_click_away(here: Visit) -> None:
    here.ask(radius="0.06", procedure="adaptive", samples="20 40")
    here.page.click("#plan button:has-text('Allow')")
    here.page.wait_for_selector("#plan .feasible")
    assert here.page.locator("[name=samples]").input_value().startswith("20 ")


def test_no_budget_is_offered_where_none_would_be_accepted(here: Visit) -> None:
    here.ask(radius="0.13")
    here.page.wait_for_selector("#plan .infeasible :text('Radius 0.13')")
    assert here.page.locator("#plan button:has-text('Allow')").count() == 0
    assert here.page.locator("#plan button:has-text('Ask for radius')").count() == 1


def test_no_budget_beyond_the_limit_of_the_service_is_offered(here: Visit, service: PageService) -> None:
    """The service would refuse such a budget after the click; the largest radius within it is offered instead."""
    here.ask(radius="0.096")
    here.page.wait_for_selector("#plan .infeasible :text('this service allows at most 1,000,000.')")
    assert here.page.locator("#plan button:has-text('Allow')").count() == 0
    here.page.click("#plan button:has-text('Ask for radius')")
    here.page.wait_for_selector("#plan .feasible")
    here.page.click("#more summary")
    assert here.text("#samples-limit") == "at most 1,000,000"
    here.ask(samples="1000001")
    here.page.wait_for_selector("#plan .problem :text('must be at most 1,000,000')")
    assert "Most samples:" in here.text("#plan")
    question = {"ensemble": "trivial", "procedure": "optimal", "radius": 0.096}
    refused = service.client.post(
        "/v1/certifications", json=question | {"images": [base64.b64encode(LIGHT).decode()]}
    ).json()
    assert "more than the 1,000,000 that this service allows" in refused["detail"]


def test_the_time_of_a_batch_is_told_beside_that_of_one_image(here: Visit) -> None:
    here.choose(*[LIGHT] * 3)
    here.page.wait_for_selector("#plan .duration :text('for 3 clear images.')")
    assert "One alone takes" in here.text("#plan .duration")


def test_a_noise_of_another_training_is_allowed_by_a_tick(here: Visit) -> None:
    assert not here.page.is_visible("#mismatch")
    here.ask(**{"noise.sigma": str(2 * SIGMA)})
    here.page.wait_for_selector("#plan :text('trained for another noise')")
    here.page.check("[name=mismatch]")
    here.page.wait_for_selector("#plan .feasible")


def plan_with(text: str) -> Callable[[Request], bool]:
    """The request for a plan whose body has this text; the page may have sent others before."""
    return lambda request: request.url.endswith("/v1/plan") and text in (request.post_data or "")


class Halves(Parameters):
    """A procedure that draws half of its budget and then decides."""

    budget: ClassVar[str] = "shots"
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ({"first": False}, {"first": True})
    name: Literal["halves"] = "halves"
    shots: tuple[int, ...] = (10, 20)
    """The samples of each half."""
    first: bool = False

    @property
    def label(self) -> str:
        return "halves, first" if self.first else "halves"

    @property
    def most_samples(self) -> int:
        return sum(self.shots)

    @property
    def look_count(self) -> int:
        return len(self.shots)

    def start(self, noise: Noise, radius: float | None, *, alpha: float, beta: float) -> Procedure:
        raise AssertionError("the page only describes it")

    def boundaries(self, noise: Noise, radius: float, *, alpha: float, beta: float) -> Boundaries:
        raise AssertionError("the page only describes it")


def test_a_procedure_that_the_page_does_not_know_describes_itself(visit: Open, service: PageService) -> None:
    cards = ProcedureList.known().data
    offered = ProcedureList(data=(*cards, ProcedureCard.of("halves", Halves)))
    opened = visit(service.address, answers={"/v1/procedures": offered.model_dump(mode="json")})
    opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    labels = opened.page.locator("[name=procedure] option").all_inner_texts()
    assert labels == [
        "optimal",
        "sequential, strict",
        "sequential, lost-certificate",
        "adaptive",
        "adaptive, kept",
        "fixed: the largest radius",
        "largest: the largest radius",
        "predict: the class alone",
        "halves",
        "halves, first",
    ]
    opened.ask(procedure="halves, first")
    assert opened.page.locator("[name=samples]").input_value() == "10 20"
    with opened.page.expect_request(plan_with("30,40")) as planned:
        opened.ask(samples="30, 40")
    assert planned.value.post_data_json["procedure"] == {"name": "halves", "first": True, "shots": [30, 40]}
    opened.page.wait_for_selector("#plan .problem")


def test_a_noise_has_an_input_for_each_parameter(visit: Open, service: PageService) -> None:
    ensembles = service.client.get("/v1/ensembles").json()
    for each in ensembles["data"]:
        each["noise"] = {"name": "speckle", "norm": "l1", "rate": 0.5, "alpha": 3}
        each["noises"] = [each["noise"]]
    opened = visit(service.address, answers={"/v1/ensembles": ensembles})
    opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    opened.page.click("#more summary")
    assert opened.page.locator("#noise label").all_inner_texts() == ["Rate", "Alpha"]
    assert not opened.page.is_visible("#mismatch")
    with opened.page.expect_request(plan_with("0.75")) as planned:
        opened.ask(**{"noise.rate": "0.75"})
    assert planned.value.post_data_json["noise"] == {"name": "speckle", "rate": 0.75, "alpha": 3}
    assert opened.page.is_visible("#mismatch")


def test_where_the_noise_of_the_training_is_unknown_it_is_asked_for(visit: Open, service: PageService) -> None:
    ensembles = service.client.get("/v1/ensembles").json()
    for each in ensembles["data"]:
        each["noise"], each["noises"] = None, []
    noises = service.client.get("/v1/noises").json()
    noises["data"].append({"name": "speckle", "norm": "l1", "parameters": ["rate"]})
    opened = visit(service.address, answers={"/v1/ensembles": ensembles, "/v1/noises": noises})
    opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    assert opened.page.locator("#noise label").all_inner_texts() == ["Sigma"]
    opened.page.locator("#noise-kind").select_option("speckle")
    assert opened.page.locator("#noise label").all_inner_texts() == ["Rate"]
    with opened.page.expect_request(plan_with("speckle")) as planned:
        opened.ask(**{"noise.rate": "0.5"})
    assert planned.value.post_data_json["noise"] == {"name": "speckle", "rate": 0.5}


def test_a_wrong_parameter_of_the_noise_is_marked(here: Visit) -> None:
    here.ask(**{"noise.sigma": "wide"})
    here.page.wait_for_selector("#plan .problem")
    assert here.page.locator("[aria-invalid]").evaluate_all("all => all.map(({ name }) => name)") == ["noise.sigma"]


def test_a_wrong_budget_is_marked_and_shown(here: Visit) -> None:
    here.ask(procedure="adaptive", samples="10 many")
    here.page.wait_for_selector("#plan .problem")
    assert here.page.locator("[aria-invalid]").evaluate_all("all => all.map(({ name }) => name)") == ["samples"]
    assert here.page.is_visible("[name=samples]")
