"""From images to certificates, in this process."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from torch import Tensor

import smoothcert
from smoothcert.certificate import (
    BOUND,
    FORMATS,
    Certificate,
    EnsembleRecord,
    InputRecord,
    PartRecord,
    Provenance,
    RemoteRecord,
    SamplingRecord,
    ShapeRecord,
)
from smoothcert.engine.checkpoint import Checkpoint, Machine
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.pixels import Pixels
from smoothcert.engine.remote.member import remotes
from smoothcert.engine.run import Handle, Sampled
from smoothcert.engine.sampling import Streams, require_seed
from smoothcert.engine.successor import Successor
from smoothcert.errors import DomainError
from smoothcert.preparation import Preparation
from smoothcert.procedures import Procedure, Transfer
from smoothcert.question import Question
from smoothcert.resizing import ResizeRecord
from smoothcert.seeds import bound_seed, new_seed


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
    nonce: str | None = None
    bound: bool = True
    """Whether the noise is bound to the question; format 1 draws it from the seed alone."""

    def result(self, timeout: float | None = None) -> Certificate:
        """Wait for the certificate."""
        return self.certificate(self.handle.result(timeout))

    def certificate(self, sampled: Sampled) -> Certificate:
        question, verdict = self.question, sampled.verdict
        return Certificate.of(
            verdict,
            format=FORMATS[self.bound],
            index=self.index,
            class_name=self._class_name(verdict.top_class),
            target_radius=question.radius,
            alpha=None if question.procedure.exhaustive else question.alpha,
            beta=question.beta,
            family_wise=question.family_wise,
            noise=question.noise,
            procedure=question.procedure,
            evaluations=sampled.evaluations,
            provenance=self._provenance(sampled),
        )

    def _class_name(self, index: int | None) -> str | None:
        if index is None:
            return None
        return self.question.procedure.class_name(index) or self.ensemble.class_name(index)

    def _provenance(self, sampled: Sampled) -> Provenance:
        ensemble, scheme = self.ensemble, self.question.noise.scheme
        # A run may end where it is resumed: the machine is that of the last sample.
        machine = sampled.parts[-1].machine if sampled.parts else Machine.of(ensemble)
        return Provenance(
            ensemble=ensemble_record(ensemble),
            input=self.input,
            sampling=SamplingRecord(
                seed=self.seed,
                nonce=self.nonce,
                image=self.index,
                scheme=BOUND + scheme if self.bound else scheme,
                device=machine.device,
                precision=machine.precision,
                shapes=tuple(ShapeRecord(**asdict(shape)) for shape in sampled.shapes),
                parts=_part_records(sampled) if len(sampled.parts) > 1 else None,
            ),
            versions=versions(machine),
            started_at=self.started_at,
            finished_at=sampled.ended_at,
        )


def ensemble_record(ensemble: Ensemble) -> EnsembleRecord:
    return EnsembleRecord(
        name=ensemble.name,
        digest=ensemble.digest,
        members=tuple(member.digest for member in ensemble.members),
        voting=ensemble.voting,
        consensus=ensemble.consensus,
        remote=_remote_records(ensemble) or None,
    )


def _remote_records(ensemble: Ensemble) -> tuple[RemoteRecord, ...]:
    """What is known of the members that run at endpoints."""
    return tuple(
        RemoteRecord(
            member=place,
            model=remote.endpoint.address.model,
            version=remote.endpoint.address.version,
            platform=remote.endpoint.platform,
            server=remote.endpoint.server,
        )
        for place, member in enumerate(ensemble.members)
        for remote in remotes(member.network)
    )


def versions(machine: Machine) -> dict[str, str]:
    """The versions of everything that counts depend on, on this machine."""
    return {"smoothcert": smoothcert.__version__, "python": platform.python_version()} | machine.arithmetic


def _part_records(sampled: Sampled) -> tuple[PartRecord, ...]:
    stops = [*(part.start for part in sampled.parts[1:]), sampled.verdict.samples]
    return tuple(
        PartRecord(
            start=part.start,
            stop=stop,
            stream=part.stream,
            device=part.machine.device,
            precision=part.machine.precision,
            versions=part.machine.arithmetic,
        )
        for part, stop in zip(sampled.parts, stops, strict=True)
    )


def start(
    engine: Engine,
    image: Tensor | Pixels,
    question: Question,
    *,
    seed: str,
    index: int = 0,
    ensemble: Ensemble | None = None,
    resume: Checkpoint | None = None,
    nonce: str | None = None,
    bound: bool = True,
    streams: Streams = ((0, 0),),
    procedure: Procedure | None = None,
    resized: ResizeRecord | None = None,
    prepared: Preparation | None = None,
    party: tuple[str, ...] = (),
) -> Case:
    """Submit one image [C, H, W] in [0, 1] to the engine, without waiting.

    `bound=False` draws the noise from the seed alone, which repeats a certificate of format 1; `streams` repeats one
    whose run went on with fresh noise. `procedure` stands in for that of the question, and gives no certificate.
    `resized` says how the image was made of another one, and `prepared` what the client says that it did before.
    `party` is as for `Engine.submit`.
    """
    require_seed(seed)
    chosen = ensemble or engine.ensemble
    if isinstance(question.procedure, Transfer) and question.procedure.joint and not isinstance(chosen, Successor):
        raise DomainError("a joint transfer compares two ensembles: run it with smoothcert.engine.transfer")
    pixels = image if isinstance(image, Pixels) else Pixels.of(image, chosen.input_shape)
    own = bound_seed(seed, question, ensemble_record(chosen), pixels.sha256) if bound else seed
    began = datetime.now(UTC)
    handle = engine.submit(
        procedure or question.start(),
        pixels,
        question.noise,
        own,
        index=index,
        ensemble=chosen,
        resume=resume,
        streams=streams,
        party=party,
    )
    record = InputRecord(sha256=pixels.sha256, shape=pixels.shape, resized=resized, prepared=prepared)
    return Case(question, chosen, record, seed, index, handle, began, nonce, bound)


def certify(
    engine: Engine,
    images: Sequence[Tensor] | Tensor,
    question: Question,
    *,
    ensemble: Ensemble | None = None,
    seed: str | None = None,
    nonce: str | None = None,
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
            started.append(start(engine, image, question, seed=seed, nonce=nonce, index=i, ensemble=ensemble))
        return [each.result() for each in started]
    except BaseException:
        for each in started:
            each.handle.cancel()
        raise
