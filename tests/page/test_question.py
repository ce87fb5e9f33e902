"""The form: the plan while it is filled in, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from smoothcert.boundaries import Boundaries
from smoothcert.noise import Noise
from smoothcert.procedures import Parameters, Procedure
from smoothcert.published import ProcedureCard, ProcedureList
from tests.page.service import Open, PageService
from tests.support.visit import LIGHT, Visit
from tests.support.zoo import SIGMA

if TYPE_CHECKING:
    from playwright.sync_api import Request


def test_the_plan_comes_as_one_types(here: Visit, service: PageService) -> None:
    for radius in (0.02, 0.5):
        here.ask(radius=str(radius))
        question = {"ensemble": "trivial", "radius": radius, "procedure": "optimal"}
        answer = service.client.post("/v1/plan", json=question).json()
        here.page.wait_for_selector(f"#plan :text('{answer['reason'][1:]}')")
        assert ("Can be proved" in here.text("#plan")) == answer["feasible"]
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
        [plan | {"seconds": {"best": 1440.0, "worst": 1441.0}}, procedure],
    )
    assert texts[-1] == "One image alone takes 24 min."


def test_a_wrong_field_is_marked_and_the_problem_shown_as_it_is(here: Visit, service: PageService) -> None:
    here.ask(alpha="two")
    answer = service.client.post("/v1/plan", json={"ensemble": "trivial", "radius": 0.02, "alpha": "two"}).json()
    for word in (answer["title"], answer["detail"], answer["code"]):
        here.page.wait_for_selector(f"#plan :text({json.dumps(word)})")
    assert here.page.locator("[name=alpha]").get_attribute("aria-invalid") == "true"
    here.ask(alpha="0.001")
    here.page.wait_for_selector("#plan .feasible")
    assert here.page.locator("[aria-invalid]").count() == 0


def test_a_radius_out_of_reach_is_refused_as_the_server_says(here: Visit) -> None:
    here.ask(radius="0.5")
    here.choose(LIGHT)
    here.certify()
    here.page.wait_for_selector("#refused :text('The radius can never be proved by this procedure')")
    assert "radius_out_of_reach" in here.text("#refused")
    assert "is 0.5; the largest that can be proved" in here.text("#refused")
    assert "#/certifications" not in here.page.url
    assert here.page.evaluate("document.activeElement.id") == "certify"


def test_a_noise_of_another_training_is_allowed_by_a_tick(here: Visit) -> None:
    assert not here.page.is_visible("#mismatch")
    here.ask(**{"noise.sigma": str(2 * SIGMA)})
    here.page.wait_for_selector("#plan :text('trained for another noise')")
    here.page.check("[name=mismatch]")
    here.page.wait_for_selector("#plan .feasible")


def plan_with(text: str) -> Callable[[Request], bool]:
    """The request for a plan whose body has this text: the page may have sent others before."""
    return lambda request: request.url.endswith("/v1/plan") and text in (request.post_data or "")


class Halves(Parameters):
    """Draws half of its budget and then decides."""

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
