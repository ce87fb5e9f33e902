"""Plans and verifications over HTTP equal those of the package."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.docs import examples
from app.http.errors import ProblemError
from app.requests.admission import Settled, require_provable, settle
from app.settings import ApiSettings
from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.choices import Allowed, NoiseList, ProcedureList
from smoothcert.engine.smoothed import Smoothed
from smoothcert.noise import NOISES, Gaussian, GaussianLinf, Noise, RoundedGaussian, Splitting
from smoothcert.plan import plan
from smoothcert.procedures import PROCEDURES, Adaptive, AnyProcedure, Fixed, Largest, Optimal, Sequential
from smoothcert.published import PlanAnswer, VerificationAnswer
from smoothcert.question import Question
from smoothcert.request import CertificationRequest
from tests.support.api import picture, problem, text
from tests.support.player import ROWS, Player
from tests.support.smoothed import NOISE, QUICK, SHAPE, images, patches

JSON = {"Content-Type": "application/json"}


def planned(client: httpx2.Client, player: Player, **fields: Any) -> PlanAnswer:
    answer = client.post("/v1/plan", json={"ensemble": player.ensemble, "radius": 0.25, **fields})
    assert answer.status_code == 200, answer.text
    return PlanAnswer.model_validate_json(answer.content)


@pytest.mark.parametrize(
    "procedure",
    [
        Fixed(n=1000),
        Adaptive(stages=(100, 500)),
        Sequential(max_samples=3000),
        Optimal(max_samples=3000),
        Largest(max_samples=3000),
    ],
)
def test_a_plan_is_that_of_the_package(client: httpx2.Client, player: Player, procedure: AnyProcedure) -> None:
    answer = planned(client, player, procedure=procedure.model_dump(), alpha=0.01)
    expected = plan(procedure, RoundedGaussian(0.25), 0.25, alpha=0.01)  # 8-bit images get this noise
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
        assert getattr(answer, name) == getattr(expected, name)
    assert [each.n for each in answer.boundaries] == expected.boundaries.looks.tolist()
    assert [each.certify_at for each in answer.boundaries] == expected.boundaries.certify.tolist()
    for each in answer.expected:
        outcome = expected.expected(each.p_a)
        assert (each.certify, each.abandon, each.samples) == (outcome.certify, outcome.abandon, outcome.samples)
        assert each.radius == outcome.radius
    assert answer.seconds is None
    assert (answer.alpha, answer.pooled, answer.look_count) == (0.01, procedure.pooled, len(expected.boundaries.looks))


def test_a_plan_tells_what_is_out_of_reach(client: httpx2.Client, player: Player) -> None:
    answer = planned(client, player, radius=2)
    assert not answer.feasible
    assert answer.fewest_samples is None
    assert "largest" in answer.reason
    hopeless = planned(client, player, radius=1000)
    assert (hopeless.feasible, hopeless.samples_needed, hopeless.boundaries) == (False, None, ())


def test_seconds_follow_from_the_measured_rate(client: httpx2.Client, player: Player) -> None:
    player.announce(rate=1000.0)
    problem(client.get("/v1/ensembles/refresh-the-roster"), "unknown_ensemble")
    answer = planned(client, player, consensus=1)
    assert answer.seconds is not None
    assert answer.fewest_samples is not None
    padded = sum(math.ceil(n / ROWS) * ROWS for n in (100, 100))  # the selection and the first stage
    assert answer.seconds.best == pytest.approx(padded * 1 / 1000)
    steps = (100, *(look.n for look in answer.boundaries))  # each stage of CertifyAdp has its own samples
    assert answer.seconds.worst == pytest.approx(sum(math.ceil(n / ROWS) * ROWS for n in steps) * 2 / 1000)
    assert answer.seconds.expected is not None
    assert answer.seconds.best <= answer.seconds.expected < answer.seconds.worst / 100


def test_a_procedure_of_one_look_takes_as_long_at_best_as_at_worst(client: httpx2.Client, player: Player) -> None:
    player.announce(rate=1000.0)
    problem(client.get("/v1/ensembles/refresh-the-roster"), "unknown_ensemble")
    seconds = planned(client, player, procedure={"name": "fixed", "n": 1001}).seconds
    assert seconds is not None
    assert seconds.best == seconds.expected == seconds.worst


def test_where_alpha_is_shared_the_plan_knows(client: httpx2.Client, player: Player) -> None:
    alone = planned(client, player, image_count=10, family_wise=False)
    shared = planned(client, player, image_count=10, family_wise=True)
    assert shared.largest_radius == plan(Adaptive(), Gaussian(0.25), 0.25, alpha=0.0001).largest_radius
    assert shared.largest_radius < alone.largest_radius
    assert (shared.alpha, alone.alpha) == (0.0001, 0.001)


def test_a_bad_plan_is_refused(client: httpx2.Client, player: Player) -> None:
    def detail(code: str, **fields: Any) -> str:
        answer = client.post("/v1/plan", json={"ensemble": player.ensemble, "radius": 0.25, **fields})
        return problem(answer, code).detail

    assert "images" in detail("invalid_request", images=["x"])
    assert "radius" in detail("invalid_request", radius=None)
    assert "nobody" in detail("unknown_ensemble", ensemble="nobody")
    assert "0.5" in detail("noise_mismatch", sigma=0.5)
    assert f"'{NOISES.names[-1]}', got 'magic'" in detail("invalid_request", noise="magic")
    assert f"'{PROCEDURES.offered[-1]}', got 'magic'" in detail("invalid_request", procedure="magic")
    assert "leave one out" in detail("invalid_request", sigma=0.5, noise={"name": "gaussian", "sigma": 0.25})
    detail("too_many_samples", image_count=10**6)


# --- what the queue is spared


@given(
    procedure=st.one_of(
        st.builds(lambda a, b: Adaptive(stages=(a, a + b)), st.integers(1, 10**4), st.integers(1, 10**5)),
        st.builds(
            lambda a, b: Adaptive(stages=(a, a + b), keep_samples=True), st.integers(1, 10**4), st.integers(1, 10**5)
        ),
        st.builds(Sequential, max_samples=st.integers(1, 3000)),
        st.builds(Optimal, max_samples=st.integers(1, 3000), n0=st.sampled_from([0, 5]), price=st.just(10**14)),
    ),
    radius=st.floats(0, 1.5),
    alpha=st.sampled_from([0.5, 0.01, 0.001, 1e-12]),
)
def test_what_is_refused_is_what_the_plan_calls_infeasible(procedure: Any, radius: float, alpha: float) -> None:
    """This needs no boundaries, which may take seconds to compute."""
    request = CertificationRequest(noise=Gaussian(0.25), radius=radius, procedure=procedure, alpha=alpha)
    expected = plan(procedure, Gaussian(0.25), radius, alpha=alpha)
    outcome = nullcontext() if expected.feasible else pytest.raises(ProblemError, match="radius_out_of_reach")
    with outcome:
        require_provable(Settled(request, Question.of(request, images=1)))


def refused(player: Player, **fields: Any) -> ProblemError:
    request = CertificationRequest(**fields)
    with pytest.raises(ProblemError) as found:
        require_provable(settle(request, player.card, images=1, eight_bit=False, most_samples=10**9))
    return found.value


@pytest.mark.parametrize(
    ("radii", "samples", "beyond", "largest"),
    [([0.25, 5], 100_000, "5", "0.95"), ([0.25, 1.5], 1000, "1.5", "0.61"), ([1.5, 3], 100_000, "1.5", "0.95")],
)
def test_each_of_several_radii_must_be_within_reach(
    client: httpx2.Client, player: Player, radii: list[float], samples: int, beyond: str, largest: str
) -> None:
    procedure = {"name": "optimal", "radii": radii, "max_samples": samples}
    for path, more in (("/v1/plan", {}), ("/v1/certifications", {"images": [text(picture())]})):
        answer = client.post(path, json={"ensemble": player.ensemble, "procedure": procedure, **more})
        detail = problem(answer, "radius_out_of_reach").detail
        assert answer.status_code == 422
        assert detail.startswith(f"procedure.radii: has {beyond}; the largest that can be proved with")
        assert f"alpha 0.001 and {samples:,} samples is {largest}" in detail


def test_several_radii_are_about_the_procedure_alone(player: Player) -> None:
    several = Optimal(radii=(0.1, 0.5))
    accepted = settle(
        CertificationRequest(procedure=several), player.card, images=1, eight_bit=False, most_samples=10**9
    )
    require_provable(accepted)
    assert accepted.question.largest_radius == 0.5
    both = refused(player, procedure=several, radius=0.25)
    assert "must be left out" in both.detail
    assert "needs a target radius" in refused(player, procedure=Optimal()).detail


def test_a_leader_needs_an_alpha_of_at_most_one_half(player: Player) -> None:
    assert "alpha: alpha must be at most 1/2" in refused(player, procedure=Optimal(), radius=0.25, alpha=0.6).detail
    chosen = CertificationRequest(procedure=Optimal(n0=10), radius=0.25, alpha=0.6)
    settle(chosen, player.card, images=1, eight_bit=False, most_samples=10**9)


def test_what_is_settled_is_a_complete_request(player: Player) -> None:
    request = CertificationRequest(radius=0.25, alpha=0.01, family_wise=True)
    settled = settle(request, player.card, images=4, eight_bit=False, most_samples=10**9)
    assert (settled.question.alpha, settled.question.noise) == (0.0025, Gaussian(0.25))
    assert CertificationRequest.model_validate_json(settled.request.model_dump_json()) == settled.request


@dataclass(frozen=True)
class Salt(Gaussian):
    """A noise of another norm, as a card of a later version may have one."""

    name: Any = "salt"
    norm: Any = "l0"

    @property
    def label(self) -> str:
        return f"salt, rate {self.sigma:g}"


def test_sigma_of_an_old_client_is_refused_by_an_ensemble_of_another_noise(player: Player) -> None:
    card = player.card.model_copy(update={"noise": Salt(0.25)})
    request = CertificationRequest(radius=0.25, sigma=0.25)
    with pytest.raises(ProblemError) as refused:
        settle(request, card, images=1, eight_bit=False, most_samples=10**9)
    assert refused.value.code == "noise_mismatch"
    for words in ("noise: is gaussian, sigma 0.25", card.name, "trained for salt, rate 0.25", "allow_noise_mismatch"):
        assert words in refused.value.detail
    allowed = request.model_copy(update={"allow_noise_mismatch": True})
    assert settle(allowed, card, images=1, eight_bit=False, most_samples=10**9).question.noise == Gaussian(0.25)
    unnamed = CertificationRequest(radius=0.25)
    assert settle(unnamed, card, images=1, eight_bit=False, most_samples=10**9).question.noise == Salt(0.25)


def test_a_procedure_that_the_ensemble_does_not_offer_is_named(player: Player) -> None:
    card = player.card.model_copy(update={"procedures": ("fixed", "adaptive")})
    with pytest.raises(ProblemError, match=r"procedure: must be one of 'fixed', 'adaptive', .* got 'sequential'"):
        settle(
            CertificationRequest(radius=0.25, procedure=Sequential()),
            card,
            images=1,
            eight_bit=False,
            most_samples=10**9,
        )


# --- verify


def test_a_certificate_is_verified(client: httpx2.Client) -> None:
    text = examples.certificate().to_json()
    verified = VerificationAnswer.model_validate_json(client.post("/v1/verify", content=text, headers=JSON).content)
    assert (verified.consistent, verified.problems) == (True, ())


def test_a_verification_has_the_intervals_of_every_look(client: httpx2.Client) -> None:
    text = examples.certificate().to_json()
    answer = VerificationAnswer.model_validate_json(client.post("/v1/verify", content=text, headers=JSON).content)
    assert [(look.n, look.count) for look in answer.looks] == [(100, 90), (1000, 969)]
    for look in answer.looks:  # each of the four stages has a quarter of alpha
        bounds = lower_bound(look.count, look.n, 0.00025), upper_bound(look.count, look.n, 0.00025)
        assert look.p_interval == bounds


@pytest.mark.parametrize(
    ("noise", "keywords"),
    [
        (NOISE, {"radius": 0.1}),
        (NOISE, {"radius": 0.1, "procedure": QUICK, "family_wise": True}),
        (NOISE, {"procedure": Fixed(n=500)}),
        (GaussianLinf(NOISE.sigma, math.prod(SHAPE)), {"procedure": Fixed(n=500)}),
        (Splitting(0.1), {}),
    ],
    ids=lambda value: value.name if isinstance(value, Noise) else "-".join(value) or "default",
)
def test_certificates_of_models_in_memory_are_accepted(
    client: httpx2.Client, noise: Noise, keywords: dict[str, Any]
) -> None:
    pixels = (torch.stack(images(2)) * 255).to(torch.uint8)
    with Smoothed([patches(0), patches(1)], noise) as smoothed:
        certificates = smoothed.certify(pixels, **keywords)
    for certificate in certificates:
        answer = client.post("/v1/verify", content=certificate.to_json(), headers=JSON)
        verified = VerificationAnswer.model_validate_json(answer.content)
        assert (verified.consistent, verified.problems) == (True, ())
        assert len(verified.looks) == len(certificate.stages)
        forged = {**json.loads(certificate.to_json()), "samples": certificate.samples + 1}
        assert client.post("/v1/verify", json=forged).json()["consistent"] is False


def test_an_abstention_of_a_model_in_memory_is_accepted(client: httpx2.Client) -> None:
    with Smoothed(patches(), NOISE, classes=["a", "b", "c", "d"]) as smoothed:
        (certificate,) = smoothed.certify(torch.full(SHAPE, 0.5), 0.5, procedure=QUICK, seed=0)
    assert certificate.decision == "abstain"
    verified = client.post("/v1/verify", content=certificate.to_json(), headers=JSON).json()
    assert (verified["consistent"], verified["problems"]) == (True, [])


def test_an_altered_certificate_is_found_out(client: httpx2.Client) -> None:
    altered = {**json.loads(examples.certificate().to_json()), "radius": 0.9}
    verified = VerificationAnswer.model_validate_json(client.post("/v1/verify", json=altered).content)
    assert not verified.consistent
    assert {each.field for each in verified.problems} == {"digest", "radius"}
    assert verified.looks == ()


@pytest.mark.parametrize("change", [{"radius": "0.1"}, {"unknown": 1}, {"decision": "perhaps"}, {"samples": -1}])
def test_what_is_no_certificate_is_refused(client: httpx2.Client, change: dict[str, Any]) -> None:
    altered = {**json.loads(examples.certificate().to_json()), **change}
    assert next(iter(change)) in problem(client.post("/v1/verify", json=altered), "invalid_certificate").detail


def test_json_of_another_kind_is_no_certificate(client: httpx2.Client) -> None:
    for body in (b"{}", b"1", b"[]"):
        problem(client.post("/v1/verify", content=body, headers=JSON), "invalid_certificate")


# --- what a form needs


def test_procedures_and_noises_describe_themselves(client: httpx2.Client) -> None:
    procedures = ProcedureList.model_validate_json(client.get("/v1/procedures").content)
    settings = ApiSettings()
    assert procedures == ProcedureList.known(Allowed(settings.samples, settings.sequential_samples))
    assert {each.name: each.budget.most for each in procedures.data if each.budget}["optimal"] == 1_000_000
    names = ["optimal", "sequential", "adaptive", "fixed", "largest", "hierarchy", "exact", "predict"]
    assert [each.name for each in procedures.data] == names
    noises = NoiseList.model_validate_json(client.get("/v1/noises").content)
    assert [(each.name, each.norm, each.parameters, each.eight_bit) for each in noises.data] == [
        ("gaussian", "l2", ("sigma",), False),
        ("rounded-gaussian", "l2", ("sigma",), True),
        ("gaussian-linf", "linf", ("sigma", "dimension"), False),
        ("uniform", "l1", ("reach",), True),
        ("replacement", "l0", ("keep", "levels"), False),
        ("splitting", "l1", ("reach", "template"), True),
    ]


def test_every_choice_of_a_form_can_be_planned(client: httpx2.Client, player: Player) -> None:
    for card in client.get("/v1/procedures").json()["data"]:
        others = card["exhaustive"] or card["hierarchical"]  # those go with other noises and ensembles
        for variant in [] if others else card["variants"]:
            budget = [int(each) for each in card["budget"]["default"].split()]
            chosen = {"name": card["name"], **variant["parameters"]}
            chosen[card["budget"]["field"]] = budget if card["budget"]["several"] else budget[0]
            radius = {"radius": 0} if card["name"] == "predict" else {}  # it proves none
            assert planned(client, player, procedure=chosen, **radius).feasible
