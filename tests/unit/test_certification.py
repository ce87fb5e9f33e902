"""From images to certificates: each certificate has everything that is needed to check it."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from smoothcert.certificate import Certificate
from smoothcert.engine.case import certify, start
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import PixelsError
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian
from smoothcert.procedures import Adaptive, Fixed, Sequential
from smoothcert.question import Question
from smoothcert.seeds import new_seed
from smoothcert.verification import verify
from tests.support.engines import SHAPE, ensemble, until

QUESTION = Question(Gaussian(0.25), Adaptive(stages=(50, 400)), radius=0.02)


@pytest.fixture(scope="module")
def three() -> Ensemble:
    return ensemble(3, consensus=2)


def test_a_certificate_says_where_its_counts_come_from(three: Ensemble) -> None:
    image = torch.randint(0, 256, SHAPE, dtype=torch.uint8)
    with Engine(three, batch=32) as engine:
        certificate = start(engine, image, QUESTION, seed="abc", index=5).result(30)
    provenance = certificate.provenance
    assert provenance is not None
    assert provenance.ensemble.digest == three.digest
    assert provenance.ensemble.members == tuple(member.digest for member in three.members)
    assert (provenance.ensemble.voting, provenance.ensemble.consensus) == ("soft", 2)
    assert (provenance.sampling.seed, provenance.sampling.image, provenance.sampling.device) == ("abc", 5, "cpu")
    assert provenance.sampling.precision == "float32"
    assert [(s.start, s.stop, s.rows) for s in provenance.sampling.shapes] == [(0, certificate.samples, 32)]
    expected = (image.numpy().astype(np.float32) / np.float32(255)).astype("<f4").tobytes()
    assert provenance.input.sha256 == hashlib.sha256(expected).hexdigest()
    assert provenance.started_at <= provenance.finished_at
    assert certificate.index == 5
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert verify(again).problems == ()


@pytest.mark.parametrize("procedure", [Fixed(n=500), Adaptive(stages=(50, 400)), Sequential(max_samples=500)])
def test_every_procedure_ends_in_certificates_that_verify(three: Ensemble, procedure: Fixed) -> None:
    radius = None if procedure.name == "fixed" else 0.02
    with Engine(three, batch=32) as engine:
        certificates = certify(engine, torch.rand(6, *SHAPE), Question(Gaussian(0.25), procedure, radius))
    assert [certificate.index for certificate in certificates] == list(range(6))
    assert all(verify(certificate) for certificate in certificates)
    assert len({c.provenance.sampling.seed for c in certificates if c.provenance}) == 1


def test_the_same_seed_gives_the_same_certificate_but_for_the_times(three: Ensemble) -> None:
    image, seed = torch.rand(SHAPE), new_seed()
    with Engine(three, batch=32) as engine:
        first, second = (start(engine, image, QUESTION, seed=seed).result(30) for _ in range(2))
    assert without_times(first) == without_times(second)
    with Engine(three, batch=32) as engine:
        other = start(engine, image, QUESTION, seed=new_seed()).result(30)
    assert other.selection != first.selection


def without_times(certificate: Certificate) -> dict[str, object]:
    fields = certificate.model_dump(exclude={"digest"})
    del fields["provenance"]["started_at"], fields["provenance"]["finished_at"]
    return fields


def test_family_wise_shares_alpha_among_the_images(three: Ensemble) -> None:
    with Engine(three, batch=32) as engine:
        certificates = certify(engine, torch.rand(4, *SHAPE), QUESTION.shared_by(4))
    for certificate in certificates:
        assert certificate.alpha == 0.001 / 4
        assert certificate.family_wise is not None
        assert (certificate.family_wise.alpha, certificate.family_wise.images) == (0.001, 4)
        assert verify(certificate)


@pytest.mark.parametrize(
    ("field", "value", "seen"),
    [
        ("evaluations", 1, "evaluations"),
        ("evaluations", 10**9, "evaluations"),
        ("evaluations", None, "evaluations"),
    ],
)
def test_evaluations_must_fit_the_samples(three: Ensemble, field: str, value: object, seen: str) -> None:
    with Engine(three, batch=32) as engine:
        certificate = start(engine, torch.rand(SHAPE), QUESTION, seed="s").result(30)
    changed = certificate.model_copy(update={field: value})
    changed = changed.model_copy(update={"digest": changed.expected_digest()})
    assert [problem.field for problem in verify(changed).problems] == [seen]


def test_shapes_must_cover_the_samples(three: Ensemble) -> None:
    with Engine(three, batch=32) as engine:
        certificate = start(engine, torch.rand(SHAPE), QUESTION, seed="s").result(30)
    provenance = certificate.provenance
    assert provenance is not None
    changed = certificate.model_copy(
        update={
            "provenance": provenance.model_copy(
                update={"sampling": provenance.sampling.model_copy(update={"shapes": ()})}
            )
        }
    )
    changed = changed.model_copy(update={"digest": changed.expected_digest()})
    assert [problem.field for problem in verify(changed).problems] == ["provenance.sampling.shapes"]


def test_a_certificate_is_the_same_however_often_it_is_asked_for(three: Ensemble) -> None:
    image = torch.rand(SHAPE)
    with Engine(three, batch=32) as engine:
        certification = start(engine, image, QUESTION, seed="s")
        sha256 = certification.input.sha256
        image.fill_(0.5)
        assert certification.result(30) == certification.result(30)
        assert certification.input.sha256 == sha256


def test_one_bad_image_leaves_no_work_behind(three: Ensemble) -> None:
    with Engine(three, batch=32) as engine:
        pictures = [*torch.rand(3, *SHAPE), torch.full(SHAPE, 2.0)]
        with pytest.raises(PixelsError, match="must lie in"):
            certify(engine, pictures, Question(Gaussian(0.25), Fixed(n=10_000_000)))
        until(lambda: not engine._turns)


def test_alpha_is_shared_by_as_many_images_as_there_are(three: Ensemble) -> None:
    with Engine(three, batch=32) as engine, pytest.raises(DomainError, match="4 images, got 3"):
        certify(engine, torch.rand(3, *SHAPE), QUESTION.shared_by(4))


def test_bad_input_raises_before_anything_is_drawn(three: Ensemble) -> None:
    with Engine(three, batch=32) as engine:
        with pytest.raises(PixelsError, match=r"\(3, 9, 9\)"):
            start(engine, torch.rand(3, 9, 9), QUESTION, seed="s")
        with pytest.raises(DomainError, match="radius"):
            start(engine, torch.rand(SHAPE), Question(Gaussian(0.25), Adaptive()), seed="s")
        assert engine.workload.batches == 0
