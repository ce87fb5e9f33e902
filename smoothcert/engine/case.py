"""From images to certificates, in this process."""

from __future__ import annotations

import platform
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import torch
from torch import Tensor

import smoothcert
from smoothcert.certificate import (
    Certificate,
    EnsembleRecord,
    InputRecord,
    Provenance,
    SamplingRecord,
    ShapeRecord,
)
from smoothcert.engine.checkpoint import Checkpoint
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.pixels import Pixels
from smoothcert.engine.run import Handle, Sampled
from smoothcert.errors import DomainError
from smoothcert.question import Question


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
        question, verdict = self.question, sampled.verdict
        return Certificate.of(
            verdict,
            index=self.index,
            class_name=None if verdict.top_class is None else self.ensemble.class_name(verdict.top_class),
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
                scheme=self.question.noise.scheme,
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
    """Submit one image [C, H, W] in [0, 1] to the engine, without waiting."""
    chosen = ensemble or engine.ensemble
    pixels = Pixels.of(image, chosen.input_shape)
    record = InputRecord(sha256=pixels.sha256, shape=pixels.shape)
    began = datetime.now(UTC)
    handle = engine.submit(question.start(), pixels, question.noise, seed, index=index, ensemble=chosen, resume=resume)
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
    """128 random bits. The certifier draws the seed: a caller who chooses it could shop for a lucky certificate."""
    return secrets.token_hex(16)
