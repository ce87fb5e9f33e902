"""A transferred certificate contains what it rests on, and verifies as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.certificate import Certificate
from smoothcert.engine.case import certify, start
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.errors import MemberError
from smoothcert.engine.successor import Successor
from smoothcert.engine.transfer import transfer
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian
from smoothcert.procedures import Adaptive, Fixed, Transfer
from smoothcert.procedures.transfer import MOST_BASIS
from smoothcert.question import Question
from smoothcert.request import CertificationRequest
from smoothcert.verification import verify
from tests.support.certificates import altered
from tests.support.command import smoothcert
from tests.support.ledgers import certified

SHAPE = (1, 4, 4)
NOISE = Gaussian(0.25)
VALUES = (0.2, 0.4, 0.48, 0.5, 0.56, 0.9)


def brightness(threshold: float, members: int = 1) -> Ensemble:
    """A network that answers dark, light or neither by the mean of the pixels; further members differ a little."""
    networks = []
    for place in range(members):
        linear = nn.Linear(16, 3)
        rows = [[-20 / 16] * 16, [20 / 16] * 16, [0.0] * 16]
        offset = 20 * (threshold + 0.02 * place)
        linear.load_state_dict({"weight": torch.tensor(rows), "bias": torch.tensor([offset, -offset, -9.0])})
        networks.append(nn.Sequential(nn.Flatten(), linear).eval())
    return assemble(networks, classes=["dark", "light", "none"], input_shape=SHAPE, name="brightness", batch=64)


IMAGES = torch.tensor(VALUES).view(-1, 1, 1, 1).expand(-1, *SHAPE).contiguous()


@pytest.fixture(scope="module")
def old() -> list[Certificate]:
    with Engine(brightness(0.5)) as engine:
        return certify(engine, IMAGES, Question(NOISE, Fixed(n=20_000)), seed="old")


@pytest.fixture(scope="module")
def found(old: list[Certificate]) -> list[Certificate | None]:
    return transfer(brightness(0.5), brightness(0.503), IMAGES, old, disagreement=0.01, loss=0.04, seed="new")


def test_it_proves_nearly_as_much_from_fewer_samples(old: list[Certificate], found: list[Certificate | None]) -> None:
    assert [each is None for each in found] == [each.decision == "abstain" for each in old]
    assert sum(each is None for each in found) == 1
    made = [(before, each) for before, each in zip(old, found, strict=True) if each is not None]
    for before, each in made:
        assert verify(each).problems == ()
        assert each.class_index == before.class_index
        assert each.samples < before.samples
        assert each.evaluations == each.samples
        assert each.radius >= 0.85 * before.radius
        assert each.alpha == 0.001
    smaller = [each.radius < before.radius for before, each in made if each.procedure.joint]  # type: ignore[attr-defined]
    assert smaller, "the old bound at half of alpha, less the disagreement"
    assert all(smaller)
    assert len(smaller) < len(made), "an image that is nearly certain is counted anew"


def test_a_file_of_them_is_read_and_reported(
    found: list[Certificate | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.jsonl").write_text("".join(each.model_dump_json() + "\n" for each in found if each is not None))
    assert smoothcert("verify", "x.jsonl").returncode == 0
    assert json.loads(smoothcert("report", "x.jsonl", "--json").stdout)["figures"]["images"] == 5


def joint(found: list[Certificate | None]) -> Certificate:
    return next(each for each in found if each and isinstance(each.procedure, Transfer) and each.procedure.joint)


def test_what_it_rests_on_is_verified_with_it(old: list[Certificate], found: list[Certificate | None]) -> None:
    certificate = joint(found)
    basis = Certificate.from_json(certificate.procedure.basis)  # type: ignore[attr-defined]

    def problems(text: str) -> list[str]:
        return [str(each) for each in verify(altered(certificate, ["procedure", "basis"], text, signed=True)).problems]

    more = altered(basis, ["stages", 0, "count"], basis.stages[0].n, signed=True)
    assert any("procedure.basis: is not consistent" in each for each in problems(more.model_dump_json()))
    noisy = certified(0, 0.9)
    assert any("procedure.basis: is about rounded-gaussian" in each for each in problems(noisy.model_dump_json()))
    another = next(each for each in old if each.index != basis.index and each.decision == "certified")
    assert any("procedure.basis: is about the image" in each for each in problems(another.model_dump_json()))
    abstained = next(each for each in old if each.decision == "abstain")
    assert any("basis is an abstention" in each for each in problems(abstained.model_dump_json()))
    adaptive = certified(0, 0.9, procedure=Adaptive())
    assert any("of the fixed procedure, got one of adaptive" in each for each in problems(adaptive.model_dump_json()))
    assert any("basis: not a certificate" in each for each in problems("{}"))
    assert problems(basis.model_dump_json()) == []
    assert not [each for each in certificate.remarks if "1.5 alpha" in each]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["radius"], 0.9),
        (["class_index"], 2),
        (["p_lower"], 0.99),
        (["alpha"], 0.01),
        (["procedure", "joint"], False),
        (["procedure", "n"], 17),
        (["procedure", "combination"], "union"),
    ],
)
def test_everything_follows_from_both_counts(found: list[Certificate | None], path: list[str], value: object) -> None:
    assert not verify(altered(joint(found), path, value, signed=True))


def test_a_class_with_a_huge_number_does_not_fill_the_memory(found: list[Certificate | None]) -> None:
    certificate = joint(found)
    counts = {str(2**53 - 1): certificate.stages[0].n}
    problems = verify(altered(certificate, ["stages", 0, "counts"], counts, signed=True)).problems
    assert any("there are at most 100000 classes" in str(each) for each in problems)


def test_members_that_are_skipped_by_consensus_are_compared_too(old: list[Certificate]) -> None:
    new = brightness(0.503, members=3).with_(consensus=2)
    made = transfer(brightness(0.5), new, IMAGES, old, seed="new")
    assert all(verify(each) for each in made if each is not None)
    plain = Successor.of(new, brightness(0.5)).classify(IMAGES.float())
    alone, before = new.classify(IMAGES).classes, brightness(0.5).classify(IMAGES).classes
    assert plain.classes.tolist() == [a if a == b else 3 for a, b in zip(alone.tolist(), before.tolist(), strict=True)]


def test_a_lost_sample_is_one_that_the_old_ensemble_gives_to_the_class() -> None:
    new, old = brightness(0.6), brightness(0.5)  # an image between them was light, and is dark now
    for top_class, lost in ((1, True), (0, False), (None, True)):
        seen = Successor.of(new, old, top_class=top_class).classify(torch.full((1, *SHAPE), 0.55)).classes.item()
        assert seen == (3 if lost else 0), top_class
    views = {Successor.of(new, old, top_class=each).view for each in (None, 0, 1)}
    assert len(views) == 3, "they do not share a batch"


def test_the_misses_of_the_old_ensemble_decide_whether_both_run(old: list[Certificate]) -> None:
    for each in (each for each in old if each.decision == "certified"):
        stage = each.stages[-1]
        transferred = Transfer.of(each, 100)
        assert transferred.joint == (stage.n - stage.count >= 10)
        other = transferred.model_copy(update={"joint": not transferred.joint})
        with pytest.raises(DomainError, match=f"where the old ensemble missed its class {stage.n - stage.count} times"):
            other.start(NOISE, None, alpha=0.001, beta=0.001)


def test_a_certificate_by_a_union_is_verified_as_it_was_made(old: list[Certificate]) -> None:
    before = next(each for each in old if each.decision == "certified" and (each.p_lower or 0) < 0.99)
    new, beside = brightness(0.503), brightness(0.5)
    procedure = Transfer(basis=before.model_dump_json(), n=2000)
    with Engine(new) as engine:
        made = start(
            engine, IMAGES[before.index], Question(NOISE, procedure), seed="x", ensemble=Successor.of(new, beside)
        ).result()
    assert "combination" not in made.model_dump()["procedure"], "the digest is that of earlier builds"
    assert verify(Certificate.from_json(made.model_dump_json())).problems == ()
    stage = before.stages[-1]
    disagreed = made.stages[0].counts.other
    p_lower = lower_bound(stage.count, stage.n, 0.0005) - upper_bound(disagreed, 2000, 0.0005)
    assert made.p_lower == pytest.approx(p_lower, abs=1e-12)
    assert [each for each in made.remarks if "at most 1.5 alpha" in each]
    assert not verify(altered(made, ["procedure", "combination"], "product", signed=True))


def test_a_boundary_is_where_the_verdict_changes(old: list[Certificate]) -> None:
    before = next(each for each in old if each.decision == "certified" and (each.p_lower or 0) < 0.99)
    basis = before.model_dump_json()
    for procedure in (
        Transfer(basis=basis, n=500),
        Transfer(basis=basis, n=500, joint=False),
        Transfer(basis=basis, n=500, combination="product"),
    ):
        (at,) = procedure.boundaries(NOISE, 0.1, alpha=0.001, beta=0.001).certify

        def radius(count: int, procedure: Transfer = procedure) -> float:
            counts = [0, 0, 0, 500 - count]
            counts[before.class_index or 0] = count
            run = procedure.start(NOISE, None, alpha=0.001, beta=0.001)
            next(run)
            with pytest.raises(StopIteration) as end:
                run.send(torch.tensor(counts).numpy())
            return float(end.value.value.radius)

        assert radius(int(at)) >= 0.1 > radius(int(at) - 1)
        assert radius(500) == procedure.largest_radius(NOISE, alpha=0.001)


# --- bad input


def test_a_service_does_not_take_it() -> None:
    with pytest.raises(ValidationError, match="a service does not offer the transfer procedure"):
        CertificationRequest(procedure=Transfer(basis=certified(0, 0.9).model_dump_json(), n=5), sigma=0.25)


def test_what_it_rests_on_has_a_largest_size() -> None:
    text = certified(0, 0.9).model_dump_json()
    assert Transfer(basis=text.ljust(MOST_BASIS), n=5).old.decision == "certified"
    with pytest.raises(ValidationError, match="at most 1000000 characters"):
        Transfer(basis=text.ljust(MOST_BASIS + 1), n=5)


def test_more_samples_than_anybody_draws_are_refused_before_they_are_computed_with(old: list[Certificate]) -> None:
    likely = next(each for each in old if each.decision == "certified" and (each.p_lower or 0) < 0.99)
    with pytest.raises(DomainError, match="at most 1,000,000,000 samples, old or new, got 9,007,199,254,740,991"):
        Transfer.of(likely, 2**53 - 1).start(NOISE, None, alpha=0.001, beta=0.001)


def test_a_joint_transfer_needs_both_ensembles(old: list[Certificate]) -> None:
    with (
        Engine(brightness(0.5)) as engine,
        pytest.raises(DomainError, match="a joint transfer compares two ensembles"),
    ):
        start(engine, IMAGES[0], Question(NOISE, Transfer(basis=old[0].model_dump_json(), n=5)), seed="x")


def test_certificates_of_others_are_refused(old: list[Certificate]) -> None:
    new = brightness(0.503)
    with pytest.raises(DomainError, match=r"certificate 0 is of brightness .*, and the old ensemble is brightness"):
        transfer(brightness(0.51), new, IMAGES, old)
    with pytest.raises(DomainError, match="certificate 1 is of another image"):
        transfer(brightness(0.5), new, IMAGES[:1], old[1:2])
    with pytest.raises(DomainError, match="there are 6 certificates for 2 images"):
        transfer(brightness(0.5), new, IMAGES[:2], old)
    with pytest.raises(DomainError, match="there are 1 plans for 6 certificates"):
        transfer(brightness(0.5), new, IMAGES, old, plans=[None])
    other = assemble([nn.Flatten()], classes=[str(place) for place in range(16)], input_shape=SHAPE, batch=64)
    with pytest.raises(MemberError, match="must have the same classes and take images of the same shape"):
        transfer(brightness(0.5), other, IMAGES, old)
