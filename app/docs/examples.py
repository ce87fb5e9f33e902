"""Examples for the OpenAPI document, constructed with the wire types."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np

from smoothcert import __version__
from smoothcert.attestation.envelope import MEDIA_TYPE
from smoothcert.attestation.keys import KeySet, PublicKey
from smoothcert.canonical import canonical_json
from smoothcert.certificate import FORMATS, Certificate
from smoothcert.certification import (
    Certification,
    CertificationPage,
    CertificationSummary,
    ImageProgress,
    Look,
    Progress,
    Urls,
)
from smoothcert.choices import NoiseList, ProcedureList, suited
from smoothcert.noise import NOISES
from smoothcert.notebook import sentence
from smoothcert.prediction import Prediction, PredictionAnswer
from smoothcert.problem import KINDS, Problem, type_uri
from smoothcert.procedures import Adaptive, Predict, run
from smoothcert.published import (
    EnsembleList,
    ExaminationAnswer,
    ExaminedAspect,
    Expectation,
    FieldProblem,
    Health,
    LookPlan,
    PlanAnswer,
    Readiness,
    RedisCheck,
    Seconds,
    ServedEnsemble,
    VerificationAnswer,
    Version,
)
from smoothcert.request import CertificationRequest
from smoothcert.seeds import commitment

MOMENT = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
ID = "cert_5f0c1d6b2f1e4b7a9d3c8e5a7b6f4d21"
ENSEMBLE = "cifar10-resnet20-gaussian-0.25"
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAK0lEQVR42u3NQQEAQAQA"
    "MC6mTIKJdSX4bQWW1ROXXhwTCAQCgUAgEAgEWz7rUQHumjq4nQAAAABJRU5ErkJggg=="
)
"""A blue square of 32 x 32 pixels, as base64."""
QUESTION = {"ensemble": ENSEMBLE, "radius": 0.25, "procedure": "adaptive"}
NOISE = NOISES.validate({"name": "gaussian", "sigma": 0.25})
TENSOR = {"dtype": "uint8", "shape": [3, 32, 32], "data": "A" * 4096}
POSTED = {**QUESTION, "images": [PNG]}
PLANNED = {**QUESTION, "image_count": 1}


@cache
def certificate() -> Certificate:
    """A certificate that was proved at the second stage."""
    procedure = Adaptive()
    draws = iter([[0, 2, 97, 1, 0], [0, 9, 90, 1, 0], [4, 21, 969, 6, 0]])
    verdict = run(procedure.start(NOISE, 0.25, alpha=0.001, beta=0.001), lambda _: np.array(next(draws)))
    question = {"target_radius": 0.25, "alpha": 0.001, "beta": 0.001, "noise": NOISE, "procedure": procedure}
    return Certificate.of(verdict, class_name="bird", evaluations=2 * verdict.samples, **question)


def request() -> CertificationRequest:
    """A question with nothing left open."""
    return CertificationRequest(ensemble=ENSEMBLE, noise=NOISE, radius=0.25, procedure=Adaptive(), voting="soft")


def running() -> CertificationSummary:
    image = ImageProgress(
        index=0,
        stage=2,
        samples=456,
        class_index=2,
        n=356,
        count=345,
        p_interval=(0.958765, 0.999999),
        looks=Look.at(Adaptive(), [90], [100], alpha=0.001),
    )
    return CertificationSummary(
        id=ID,
        status="running",
        created_at=MOMENT,
        started_at=MOMENT + timedelta(milliseconds=4),
        finished_at=None,
        expires_at=MOMENT + timedelta(days=7),
        queue_position=None,
        ensemble=ENSEMBLE,
        request=request(),
        progress=Progress(images_done=0, images_total=1, samples=456, evaluations=912, images=(image,)),
        error=None,
        urls=Urls(
            self=f"/v1/certifications/{ID}",
            events=f"/v1/certifications/{ID}/events",
            cancel=f"/v1/certifications/{ID}/cancel",
        ),
    )


def succeeded() -> Certification:
    proof = certificate()
    ended = {
        "status": "succeeded",
        "finished_at": MOMENT + timedelta(seconds=1.2),
        "expires_at": MOMENT + timedelta(days=1),
        "progress": Progress(images_done=1, images_total=1, samples=proof.samples, evaluations=2 * proof.samples),
    }
    return Certification(**{**dict(running()), **ended}, certificates=(proof,))


def accepted() -> Certification:
    nothing = Progress(images_done=0, images_total=1, samples=0, evaluations=0)
    waiting = {"status": "queued", "started_at": None, "queue_position": 3, "progress": nothing}
    return Certification(**{**dict(running()), **waiting}, certificates=())


def stopped(status: str) -> Certification:
    return Certification(**{**dict(running()), "status": status}, certificates=())


def predicted() -> PredictionAnswer:
    """A prediction that is finished."""
    procedure = Predict()
    verdict = run(procedure.start(NOISE, None, alpha=0.001, beta=0.001), lambda _: np.array([4, 21, 969, 6, 0]))
    question = {"target_radius": None, "alpha": 0.001, "beta": 0.001, "noise": NOISE, "procedure": procedure}
    proof = Certificate.of(verdict, class_name="bird", evaluations=2 * verdict.samples, **question)
    return PredictionAnswer(
        id=ID, status="succeeded", predictions=(Prediction.of(proof),), error=None, url=f"/v1/certifications/{ID}"
    )


def page() -> CertificationPage:
    return CertificationPage(data=(running(),), next_cursor="MTc5NDgyMDQwMC4wIGNlcnRfNWYwYzFkNmI")


def served() -> ServedEnsemble:
    return ServedEnsemble(
        name=ENSEMBLE,
        digest="9c1185a5c5e9fc54612808977ee8f548b2258d31d5f8a1f6a2f0d0c9e1b3a4d7",
        members=("4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945",) * 2,
        architectures=("cifar-resnet20",) * 2,
        classes=("airplane", "automobile", "bird"),
        input_shape=(3, 32, 32),
        noise=NOISE,
        voting="soft",
        votings=("soft", "softmax", "hard"),
        procedures=("fixed", "adaptive", "optimal", "sequential", "largest"),
        noises=tuple(each.parameters() for each in suited(NOISE, (3, 32, 32))),
        default=True,
        ready=True,
        workers=1,
        devices=("cpu",),
        evaluations_per_second=5200.0,
    )


def plan() -> PlanAnswer:
    return PlanAnswer(
        alpha=0.001,
        pooled=False,
        look_count=4,
        feasible=True,
        reason="radius 0.25 is proved if p_A is shown to be at least 0.841345",
        radius=0.25,
        p0=0.841345,
        largest_radius=0.952828,
        samples_needed=49,
        fewest_samples=200,
        most_samples=131_200,
        seconds=Seconds(best=0.08, expected=0.09, worst=50.5),
        boundaries=(LookPlan(n=100, certify_at=96, abandon_at=71),),
        expected=(Expectation(p_a=0.920672, certify=1.0, abandon=0.0, samples=1106.0),),
    )


def looks() -> tuple[Look, ...]:
    """The looks of the certificate."""
    stages = certificate().stages
    return Look.at(Adaptive(), [each.count for each in stages], [each.n for each in stages], alpha=0.001)


def signing_keys() -> KeySet:
    """One key, the first example of RFC 8032."""
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    return KeySet(keys=(PublicKey.of(public, name="the example", not_before=MOMENT - timedelta(days=30)),))


def attestation() -> str:
    """The shape of an attestation; payload and signature are shortened."""
    signatures = [{"keyid": signing_keys().keys[0].keyid, "sig": "5VZDAMNgrHKQhuLMgG6CiSHfy64X..."}]
    return canonical_json({"payload": "eyJfdHlwZSI6...", "payloadType": MEDIA_TYPE, "signatures": signatures}) + "\n"


def document() -> dict[str, Any]:
    """Every example as JSON, by its name."""
    made = {
        "accepted": accepted(),
        "succeeded": succeeded(),
        "canceled": stopped("canceled"),
        "canceling": stopped("canceling"),
        "predicted": predicted(),
        "predicting": predicted().model_copy(update={"status": "queued", "predictions": ()}),
        "page": page(),
        "ensemble": served(),
        "ensembles": EnsembleList(data=(served(),)),
        "plan": plan(),
        "procedures": ProcedureList.known(),
        "noises": NoiseList.known(),
        "consistent": VerificationAnswer(consistent=True, problems=(), looks=looks()),
        "altered": VerificationAnswer(
            consistent=False,
            problems=(FieldProblem(field="radius", message="is 0.5, the counts give 0.391245"),),
            looks=(),
        ),
        "certificate": certificate(),
        "examined": ExaminationAnswer(
            certificates=1,
            consistent=True,
            signed=ExaminedAspect(
                holds=True, sentence=f"By the example, with the key {signing_keys().keys[0].keyid[:16]}…."
            ),
            unaltered=ExaminedAspect(holds=True, sentence="Every byte is as it was signed."),
            follows=ExaminedAspect(holds=True, sentence="Everything that is claimed follows from the counts."),
            claims=(sentence(certificate()),),
            problems=(),
            notes=(),
        ),
        "signing_keys": signing_keys(),
        "healthy": Health(status="ok"),
        "ready": Readiness(
            status="ready",
            workers=1,
            redis=(RedisCheck(name="eviction", status="ok", detail="A full server deletes nothing."),),
        ),
        "version": Version(
            smoothcert=__version__, api="1", certificate=FORMATS[-1], seed_commitment=commitment(b"an example")
        ),
    }
    return {name: each.model_dump(mode="json") for name, each in made.items()}


def events() -> str:
    """The last two events of a stream."""
    return (
        f"event: certificate\nid: 1\ndata: {certificate().model_dump_json()}\n\n"
        f"event: completed\nid: end\ndata: {succeeded().model_dump_json(exclude={'certificates'})}\n\n"
    )


DETAILS = {
    "unknown_ensemble": "there is no ensemble 'cifar'; there are: cifar10-resnet20-gaussian-0.25",
    "invalid_image": "images.0: is 40 x 30 (width x height), wanted 32 x 32; `resize`: 'cover' changes that",
    "radius_out_of_reach": (
        "radius: is 1; the largest that can be proved with gaussian, sigma 0.25, alpha 0.001 and a last stage of "
        "120,000 samples is 0.952828; it would take a last stage of 261,876 samples"
    ),
}


def problem(code: str) -> dict[str, Any]:
    kind = KINDS[code]
    example = Problem(
        type=type_uri(code),
        title=kind.title,
        status=kind.status,
        detail=DETAILS.get(code, kind.title),
        code=code,
        request_id="0af7651916cd43dd8448eb211c80319c",
    )
    return example.model_dump(mode="json")
