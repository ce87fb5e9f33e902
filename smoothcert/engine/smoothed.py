"""`Smoothed`: certify torch models in this process, without a service."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from smoothcert.certificate import Certificate
from smoothcert.certificates import Certificates
from smoothcert.diagnosis import Diagnosis
from smoothcert.engine.bar import counting
from smoothcert.engine.batches import (
    as_float,
    as_images,
    as_labels,
    count_images,
    image_batches,
    labelled_batches,
    refusing_labels,
)
from smoothcert.engine.case import Case, start
from smoothcert.engine.diagnosis import diagnose
from smoothcert.engine.engine import Engine
from smoothcert.engine.keywords import QuestionKeywords, procedure_of_curve, question_of, seed_of
from smoothcert.engine.networks import Model, Networks, image_shape
from smoothcert.engine.pixels import Pixels
from smoothcert.engine.ready import IN_MEMORY
from smoothcert.engine.session import EngineSession
from smoothcert.engine.study.samples import About
from smoothcert.engine.study.study import SAMPLES, Study, study
from smoothcert.engine.warning import SmoothedWarning
from smoothcert.errors import DomainError, refusing_unknown
from smoothcert.evaluation import Judged
from smoothcert.noise import NOISES, Noise
from smoothcert.procedures import predict as prediction
from smoothcert.question import Question
from smoothcert.report import Report

WINDOW = 64
"""The images of `certify_many` that are in the engine at once: enough for full batches, and little memory."""


class Smoothed:
    """A classifier smoothed by noise: its answer is the class that the model most often gives under the noise.

    `models` is an nn.Module, or a list of them that vote as an ensemble, best first. They take images [N, C, H, W] in
    [0, 1], or what `mean` and `std` (a number, or one for each channel) make of them, and return logits [N, classes].
    Smoothed keeps copies in eval mode, so training a model further does not change it.

    A model may also be a name: `hf://ORGANISATION/NAME@REVISION` or `timm/NAME@REVISION` of the hub, a folder in the
    hub's layout, or an `.onnx` file. The configuration of a model of the hub gives its classes and its normalisation,
    unless `classes`, `mean` and `std` are given.

    `denoiser` is an nn.Module that maps noisy images in [0, 1] to images of the same shape, for models that were not
    trained under noise. Several denoisers before one model are an ensemble of denoisers; several models take one
    denoiser, or one each. `mean` and `std` apply behind it.

    `classes` are names, or their number; without them the number is found by a forward pass, and certificates have no
    class names. `voting` is soft, softmax or hard. With `consensus` K, the other models are asked only where the
    first K disagree. `device` is that of the first model by default. `batch` samples run at a time, in `precision`
    (float32, bfloat16, float16). `runtime` computes them: torch; onnxruntime or openvino, which may be faster on a CPU;
    or compiled, which may be faster on a GPU.

    All images of one object have the same shape, that of the first. The sampling thread starts with the first call
    and ends with `close`, at the end of a `with` block, or when the object is garbage collected; a call after `close`
    starts another. An object may be used from several threads.
    """

    @refusing_unknown
    def __init__(
        self,
        models: Model | Sequence[Model],
        noise: Noise,
        *,
        denoiser: nn.Module | Sequence[nn.Module] | None = None,
        classes: Sequence[str] | int | None = None,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        voting: str = "soft",
        consensus: int | None = None,
        device: str | torch.device | None = None,
        batch: int = 256,
        precision: str = "float32",
        runtime: str = "torch",
    ) -> None:
        _require_noise(noise)
        self.noise = noise
        self._networks = Networks.of(
            models,
            noise,
            denoiser=denoiser,
            classes=classes,
            mean=mean,
            std=std,
            voting=voting,
            consensus=consensus,
            device=device,
            batch=batch,
            precision=precision,
            runtime=runtime,
        )
        self.batch = self._networks.batch
        self._session = EngineSession(self._networks)

    def certify(
        self,
        images: Any,
        radius: float | None = None,
        *,
        family_wise: bool = False,
        **keywords: Unpack[QuestionKeywords],
    ) -> list[Certificate]:
        """A certificate for each image, in their order; for one image [C, H, W] a list of one.

        With probability at least 1 - alpha a certificate abstains, or the smoothed classifier gives its class
        everywhere within its radius; with `family_wise` this holds for all images together. `images` are
        [N, C, H, W], uint8 or floating-point in [0, 1]. Bytes get the exact noise of the same law where there is one,
        `rounded-gaussian` in place of `gaussian`.

        The keywords are procedure (`optimal` with a radius to prove, and `fixed`, which proves the largest radius
        it can, without one), alpha=0.001, beta=0.001, and seed (random, unless a run is to be repeated).
        """
        batch = as_images(images)
        question = question_of(self.noise, radius, keywords, images=len(batch) if family_wise else None)
        return Certificates(self._certified([batch], question, seed_of(keywords.get("seed"))))

    def certify_many(
        self,
        loader: Iterable[Any],
        radius: float | None = None,
        *,
        progress: bool | None = None,
        **keywords: Unpack[QuestionKeywords],
    ) -> Generator[Certificate, None, None]:
        """Certificates one by one, of as many images as a loader yields: `certify` in bounded memory.

        The loader is any iterable of images, batches, or pairs (images, labels), whose labels are ignored. It is read
        as certificates are taken, at most WINDOW images ahead. A bar shows the progress on a terminal and in a
        notebook, if rich is installed; `progress` True or False overrides that. The other keywords are those of
        `certify`.
        """
        question = question_of(self.noise, radius, keywords)
        certified = self._certified(image_batches(loader), question, seed_of(keywords.get("seed")))
        return self._shown(certified, count_images(loader), progress)

    @refusing_unknown
    def predict(
        self, images: Any, n: int = 1000, alpha: float = 0.001, *, seed: str | int | None = None
    ) -> list[int | None]:
        """The class index of the smoothed classifier for each image from n samples, or None for an abstention.

        Each class is wrong with probability at most alpha. No radius is proved.
        """
        batch, text = as_images(images), seed_of(seed)
        engine = self._session.engine(batch)
        handles = [
            engine.submit(prediction(n=n, alpha=alpha), image, self._noise_for(image), text, index=index)
            for index, image in enumerate(batch)
        ]
        try:
            return [handle.result().verdict.top_class for handle in handles]
        finally:
            for handle in handles:
                handle.cancel()  # does nothing to a run that has ended

    @refusing_labels
    def evaluate(
        self,
        loader: Any,
        radius: float | None = None,
        *,
        radii: Sequence[float] | None = None,
        progress: bool | None = None,
        name: str = IN_MEMORY,
        **keywords: Unpack[QuestionKeywords],
    ) -> Report:
        """Certify a data set and judge the certificates by its labels: ACR, certified accuracy, samples.

        The loader yields pairs (images, labels), or is one such pair; labels are names of classes or their numbers. The
        report is that of `smoothcert evaluate`; it has `figures`, `curve`, `to_pandas()` and `plot()`, and its `name`
        is the title. The other keywords are those of `certify_many`.

        `radii`, in place of a radius, are those of a curve of certified accuracy: one run of `optimal` serves all of
        them, and alpha is not divided among them.
        """
        if radii is not None:
            keywords["procedure"] = procedure_of_curve(keywords.get("procedure"), radii, radius, self.noise)
        question = question_of(self.noise, radius, keywords)
        labels: list[int] = []

        def batches() -> Iterator[Tensor]:
            for images, batch_labels in labelled_batches(loader):
                classes = self._session.ensemble(images).classes
                labels.extend(as_labels(batch_labels, images=len(images), classes=classes))
                yield images

        certified = self._certified(batches(), question, seed_of(keywords.get("seed")))
        with closing(self._shown(certified, count_images(loader), progress)) as shown:
            certificates = list(shown)
        if not certificates:
            raise DomainError("the loader yields no images; a generator that was read before is empty")
        judged = [Judged(certificate, label) for certificate, label in zip(certificates, labels, strict=True)]
        return Report(name, [str(place) for place in range(len(judged))], judged)

    def diagnose(self, images: Any, labels: Any, *, seed: int = 0) -> Diagnosis:
        """Find out why a model certifies less than expected: see `smoothcert.engine.diagnosis`."""
        batch = as_images(images)
        for image in batch:  # the same refusals as in `certify`
            self._noise_for(image).require_values(Pixels.of(image, image_shape(batch)).stored.numpy())
        ensemble = self._networks.plain(batch)
        known = as_labels(labels, images=len(batch), classes=ensemble.classes)
        in_train_mode = self._networks.in_train_mode
        return diagnose(ensemble, as_float(batch), known, noise=self.noise, in_train_mode=in_train_mode, seed=seed)

    def study(
        self,
        images: Any,
        labels: Any,
        folder: str | Path,
        *,
        samples: int = SAMPLES,
        alpha: float = 0.001,
        beta: float = 0.001,
        progress: bool | None = None,
        name: str = IN_MEMORY,
    ) -> Study:
        """Repeat the paper's experiments with these models: see `smoothcert.engine.study`.

        `samples` samples of each image go through every model once and are kept in `folder`/tapes, so that a study
        that was interrupted goes on. The report is written into `folder`; the result has its chapters.
        """
        batch = as_images(images)
        ensemble = self._session.ensemble(batch)
        known = as_labels(labels, images=len(batch), classes=ensemble.classes)
        found = study(
            ensemble,
            list(batch),
            known,
            Path(folder),
            noise=self.noise,
            about=About(name, "the images that were given"),
            samples=samples,
            alpha=alpha,
            beta=beta,
            batch=self.batch,
            progress=progress,
        )
        found.write(Path(folder))
        return found

    def close(self) -> None:
        """End the sampling thread; certifications that are under way fail with ClosedError."""
        self._session.close()

    def __enter__(self) -> Smoothed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        given = self._networks
        names = ", ".join(given.names)
        return f"Smoothed([{names}], {self.noise!r}, voting={given.voting!r}, device={str(given.device)!r})"

    # A copy, and an object that was sent to another process, has the networks and builds its own ensemble and thread.

    def __getstate__(self) -> dict[str, Any]:
        return {"noise": self.noise, "batch": self.batch, "_networks": self._networks}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._session = EngineSession(self._networks)

    # --- certifying

    def _noise_for(self, image: Tensor) -> Noise:
        """Bytes get the exact noise of the same law, if there is one."""
        return self.noise.on_bytes(tuple(image.shape)) if image.dtype == torch.uint8 else self.noise

    def _certified(
        self, batches: Iterable[Tensor], question: Question, seed: str
    ) -> Generator[Certificate, None, None]:
        """Certificates in the order of the images, with at most WINDOW of them in the engine."""
        waiting: deque[Case] = deque()
        try:
            for index, (engine, image) in enumerate(self._submissions(batches)):
                settled = replace(question, noise=self._noise_for(image))
                waiting.append(start(engine, image, settled, seed=seed, index=index))
                if len(waiting) == WINDOW:
                    yield waiting[0].result()
                    waiting.popleft()
            while waiting:
                yield waiting[0].result()
                waiting.popleft()
        finally:  # an error, or the caller takes no more certificates
            for case in waiting:
                case.handle.cancel()

    def _submissions(self, batches: Iterable[Tensor]) -> Iterator[tuple[Engine, Tensor]]:
        for batch in batches:
            engine = self._session.engine(batch)
            for image in batch:
                yield engine, image

    @staticmethod
    def _shown(
        certificates: Generator[Certificate, None, None], total: int | None, progress: bool | None
    ) -> Generator[Certificate, None, None]:
        with counting(total, progress) as finished, closing(certificates):
            for certificate in certificates:
                finished(certificate.samples)
                yield certificate


def _require_noise(noise: Noise) -> None:
    if not isinstance(noise, Noise):
        raise DomainError(f"noise must be a noise such as Gaussian(0.25), got {noise!r}")
    if type(noise) not in set(NOISES):
        raise DomainError(f"{type(noise).__qualname__} is not registered: call NOISES.add({type(noise).__qualname__})")


__all__ = ["Smoothed", "SmoothedWarning"]
