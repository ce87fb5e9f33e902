"""Plans and verifications over HTTP are those of the package."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.docs import examples
from app.http.errors import ProblemError
from app.requests.admission import Question, require_provable, settle
from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.noise import Gaussian
from smoothcert.plan import plan
from smoothcert.procedures import Adaptive, AnyProcedure, Fixed, Sequential
from smoothcert.published import NoiseList, PlanAnswer, ProcedureList, VerificationAnswer
from smoothcert.request import CertificationRequest
from tests.support.api import problem
from tests.support.player import Player

JSON = {"Content-Type": "application/json"}


def planned(client: httpx.Client, player: Player, **asked: Any) -> PlanAnswer:
    answer = client.post("/v1/plan", json={"ensemble": player.ensemble, "radius": 0.25, **asked})
    assert answer.status_code == 200, answer.text
    return PlanAnswer.model_validate_json(answer.content)


@pytest.mark.parametrize("procedure", [Fixed(n=1000), Adaptive(stages=(100, 500)), Sequential(max_samples=3000)])
def test_a_plan_is_that_of_the_package(client: httpx.Client, player: Player, procedure: AnyProcedure) -> None:
    said = planned(client, player, procedure=procedure.model_dump(), alpha=0.01)
    expected = plan(procedure, Gaussian(0.25), 0.25, alpha=0.01)
    assert expected.boundaries is not None
    for name in (
        "feasible",
        "reason",
        "radius",
        "p0",
        "largest_radius",
        "samples_needed",
        "fewest_samples",
        "most_samples",
    ):
        assert getattr(said, name) == getattr(expected, name)
    assert [each.n for each in said.boundaries] == expected.boundaries.looks.tolist()
    assert [each.certify_at for each in said.boundaries] == expected.boundaries.certify.tolist()
    for each in said.expected:
        outcome = expected.expected(each.p_a)
        assert (each.certify, each.abandon, each.samples) == (outcome.certify, outcome.abandon, outcome.samples)
    assert said.seconds is None
    assert (said.alpha, said.pooled, said.look_count) == (0.01, procedure.pooled, len(expected.boundaries.looks))


def test_a_plan_tells_what_is_out_of_reach(client: httpx.Client, player: Player) -> None:
    said = planned(client, player, radius=2)
    assert not said.feasible
    assert said.fewest_samples is None
    assert "largest" in said.reason
    hopeless = planned(client, player, radius=1000)
    assert (hopeless.feasible, hopeless.samples_needed, hopeless.boundaries) == (False, None, ())


def test_seconds_follow_from_the_measured_rate(client: httpx.Client, player: Player) -> None:
    player.announce(rate=1000.0)
    problem(client.get("/v1/ensembles/refresh-the-roster"), "unknown_ensemble")
    said = planned(client, player, consensus=1)
    assert said.seconds is not None
    assert said.fewest_samples is not None
    assert said.seconds.best == pytest.approx(said.fewest_samples * 1 / 1000)
    assert said.seconds.worst == pytest.approx(said.most_samples * 2 / 1000)


def test_where_alpha_is_shared_the_plan_knows(client: httpx.Client, player: Player) -> None:
    alone = planned(client, player, image_count=10, family_wise=False)
    shared = planned(client, player, image_count=10, family_wise=True)
    assert shared.largest_radius == plan(Adaptive(), Gaussian(0.25), 0.25, alpha=0.0001).largest_radius
    assert shared.largest_radius < alone.largest_radius
    assert (shared.alpha, alone.alpha) == (0.0001, 0.001)


def test_a_bad_plan_is_refused(client: httpx.Client, player: Player) -> None:
    def said(code: str, **asked: Any) -> str:
        answer = client.post("/v1/plan", json={"ensemble": player.ensemble, "radius": 0.25, **asked})
        return problem(answer, code).detail

    assert "images" in said("invalid_request", images=["x"])
    assert "radius" in said("invalid_request", radius=None)
    assert "nobody" in said("unknown_ensemble", ensemble="nobody")
    assert "0.5" in said("noise_mismatch", sigma=0.5)
    said("too_many_samples", image_count=10**6)


# --- what the queue is spared


@given(
    procedure=st.one_of(
        st.builds(lambda a, b: Adaptive(stages=(a, a + b)), st.integers(1, 10**4), st.integers(1, 10**5)),
        st.builds(
            lambda a, b: Adaptive(stages=(a, a + b), keep_samples=True), st.integers(1, 10**4), st.integers(1, 10**5)
        ),
        st.builds(Sequential, max_samples=st.integers(1, 3000)),
    ),
    radius=st.floats(0, 1.5),
    alpha=st.sampled_from([0.5, 0.01, 0.001, 1e-12]),
)
def test_what_is_refused_is_what_the_plan_calls_infeasible(procedure: Any, radius: float, alpha: float) -> None:
    """Without the boundaries, which may take seconds to compute."""
    request = CertificationRequest(radius=radius, procedure=procedure, alpha=alpha)
    question = Question(request, Gaussian(0.25), alpha)
    expected = plan(procedure, Gaussian(0.25), radius, alpha=alpha)
    refused = nullcontext() if expected.feasible else pytest.raises(ProblemError, match="radius_out_of_reach")
    with refused:
        require_provable(question)


def test_what_is_settled_is_a_complete_request(player: Player) -> None:
    asked = CertificationRequest(radius=0.25, alpha=0.01, family_wise=True)
    question = settle(asked, player.card, images=4, most_samples=10**9)
    assert (question.alpha, question.noise.sigma) == (0.0025, 0.25)
    assert CertificationRequest.model_validate_json(question.request.model_dump_json()) == question.request


# --- verify


def test_a_certificate_is_verified(client: httpx.Client) -> None:
    text = examples.certificate().to_json()
    said = VerificationAnswer.model_validate_json(client.post("/v1/verify", content=text, headers=JSON).content)
    assert (said.consistent, said.problems) == (True, ())


def test_a_verification_has_the_intervals_of_every_look(client: httpx.Client) -> None:
    text = examples.certificate().to_json()
    answer = VerificationAnswer.model_validate_json(client.post("/v1/verify", content=text, headers=JSON).content)
    assert [(look.n, look.count) for look in answer.looks] == [(100, 90), (1000, 969)]
    for look in answer.looks:  # each of the four stages has a quarter of alpha
        bounds = lower_bound(look.count, look.n, 0.00025), upper_bound(look.count, look.n, 0.00025)
        assert look.p_interval == bounds


def test_an_altered_certificate_is_found_out(client: httpx.Client) -> None:
    altered = {**json.loads(examples.certificate().to_json()), "radius": 0.9}
    said = VerificationAnswer.model_validate_json(client.post("/v1/verify", json=altered).content)
    assert not said.consistent
    assert {each.field for each in said.problems} == {"digest", "radius"}
    assert said.looks == ()


@pytest.mark.parametrize("change", [{"radius": "0.1"}, {"unknown": 1}, {"decision": "perhaps"}, {"samples": -1}])
def test_what_is_no_certificate_is_refused(client: httpx.Client, change: dict[str, Any]) -> None:
    altered = {**json.loads(examples.certificate().to_json()), **change}
    assert next(iter(change)) in problem(client.post("/v1/verify", json=altered), "invalid_certificate").detail


def test_json_of_another_kind_is_no_certificate(client: httpx.Client) -> None:
    for body in (b"{}", b"1", b"[]"):
        problem(client.post("/v1/verify", content=body, headers=JSON), "invalid_certificate")


# --- what a form needs


def test_procedures_and_noises_describe_themselves(client: httpx.Client) -> None:
    procedures = ProcedureList.model_validate_json(client.get("/v1/procedures").content)
    assert procedures == ProcedureList.known()
    assert [each.name for each in procedures.data] == ["sequential", "adaptive", "fixed"]
    noises = NoiseList.model_validate_json(client.get("/v1/noises").content)
    assert [(each.name, each.norm, each.parameters) for each in noises.data] == [("gaussian", "l2", ("sigma",))]


def test_every_choice_of_a_form_can_be_planned(client: httpx.Client, player: Player) -> None:
    for card in client.get("/v1/procedures").json()["data"]:
        for variant in card["variants"]:
            budget = [int(each) for each in card["budget"]["default"].split()]
            chosen = {"name": card["name"], **variant["parameters"]}
            chosen[card["budget"]["field"]] = budget if card["budget"]["several"] else budget[0]
            assert planned(client, player, procedure=chosen).feasible
