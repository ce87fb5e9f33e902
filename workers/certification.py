"""From images to certificates, in this process."""

from __future__ import annotations

import platform
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

import torch
from torch import Tensor

import smoothcert
from models.ensemble import Ensemble
from smoothcert.certificate import (
    Certificate,
    EnsembleRecord,
    FamilyWise,
    InputRecord,
    Provenance,
    SamplingRecord,
    ShapeRecord,
)
from smoothcert.errors import DomainError, require_count, require_level
from smoothcert.noise import AnyNoise
from smoothcert.procedures import AnyProcedure
from workers.checkpoint import Checkpoint
from workers.engine import Engine
from workers.pixels import check_image, pixels_sha256
from workers.run import Handle, Sampled
from workers.sampling import SCHEME


@dataclass(frozen=True)
class Question:
    """What is asked about every image of a request."""

    noise: AnyNoise
    procedure: AnyProcedure
    radius: float | None = None
    alpha: float = 0.001
    beta: float = 0.001
    family_wise: FamilyWise | None = None

    def shared_by(self, images: int) -> Question:
        """With alpha divided among the images, so that it bounds the chance of any false certificate."""
        require_level("alpha", self.alpha)
        require_count("images", images)
        return replace(self, alpha=self.alpha / images, family_wise=FamilyWise(alpha=self.alpha, images=images))


@dataclass(frozen=True)
class Case:
    """One image on its way to a certificate."""

    question: Question
    ensemble: Ensemble
    input: InputRecord
    seed: str
    index: int
    handle: Handle
    started_at: datetime

    def result(self, timeout: float | None = None) -> Certificate:
        """Wait for the certificate."""
        return self.certificate(self.handle.result(timeout))

    def certificate(self, sampled: Sampled) -> Certificate:
        """The certificate of what was sampled."""
        question, verdict = self.question, sampled.verdict
        return Certificate.of(
            verdict,
            index=self.index,
            class_name=None if verdict.top_class is None else self.ensemble.classes[verdict.top_class],
            target_radius=question.radius,
            alpha=question.alpha,
            beta=question.beta,
            family_wise=question.family_wise,
            noise=question.noise,
            procedure=question.procedure,
            evaluations=sampled.evaluations,
            provenance=self._provenance(sampled),
        )

    def _provenance(self, sampled: Sampled) -> Provenance:
        ensemble = self.ensemble
        return Provenance(
            ensemble=EnsembleRecord(
                name=ensemble.name,
                digest=ensemble.digest,
                members=tuple(member.digest for member in ensemble.members),
                voting=ensemble.voting,
                consensus=ensemble.consensus,
            ),
            input=self.input,
            sampling=SamplingRecord(
                seed=self.seed,
                image=self.index,
                scheme=SCHEME,
                device=ensemble.device.type,
                precision=ensemble.precision,
                shapes=tuple(ShapeRecord(**asdict(shape)) for shape in sampled.shapes),
            ),
            versions=VERSIONS,
            started_at=self.started_at,
            finished_at=sampled.ended_at,
        )


VERSIONS = {
    "smoothcert": smoothcert.__version__,
    "torch": torch.__version__,
    "python": platform.python_version(),
    "cpu": torch.backends.cpu.get_cpu_capability(),  # the vector instructions, on which torch's noise depends
}


def start(
    engine: Engine,
    image: Tensor,
    question: Question,
    *,
    seed: str,
    index: int = 0,
    ensemble: Ensemble | None = None,
    resume: Checkpoint | None = None,
) -> Case:
    """Submit one image [C, H, W] in [0, 1] to the engine; it does not wait."""
    chosen = ensemble or engine.ensemble
    pixels = check_image(image, chosen.input_shape)
    record = InputRecord(sha256=pixels_sha256(pixels), shape=tuple(pixels.shape))
    procedure = question.procedure.start(question.noise, question.radius, alpha=question.alpha, beta=question.beta)
    began = datetime.now(UTC)
    handle = engine.submit(procedure, pixels, question.noise.sigma, seed, index=index, ensemble=chosen, resume=resume)
    return Case(question, chosen, record, seed, index, handle, began)


def certify(
    engine: Engine,
    images: Sequence[Tensor] | Tensor,
    question: Question,
    *,
    ensemble: Ensemble | None = None,
    seed: str | None = None,
) -> list[Certificate]:
    """The certificates of images [N, C, H, W] in [0, 1], in their order; all of them, or an error and no work left.

    The seed is drawn here unless an earlier run is to be repeated.
    """
    shared = question.family_wise
    if shared and shared.images != len(images):
        raise DomainError(f"alpha is shared by {shared.images} images, got {len(images)}")
    seed = seed or new_seed()
    started: list[Case] = []
    try:
        for i, image in enumerate(images):
            started.append(start(engine, image, question, seed=seed, index=i, ensemble=ensemble))
        return [each.result() for each in started]
    except BaseException:
        for each in started:
            each.handle.cancel()
        raise


def new_seed() -> str:
    """128 random bits. The one who certifies draws the seed: who may choose it can shop for a lucky certificate."""
    return secrets.token_hex(16)
