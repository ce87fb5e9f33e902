"""`Smoothed`: certify torch models in this process, without a service."""

from __future__ import annotations

import copy
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from smoothcert.certificate import Certificate
from smoothcert.diagnosis import Diagnosis
from smoothcert.engine.bar import counting
from smoothcert.engine.batches import as_float, as_images, as_labels, count_images, image_batches, labelled_batches
from smoothcert.engine.case import Case, new_seed, start
from smoothcert.engine.diagnosis import diagnose
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import (
    Ensemble,
    Identity,
    Member,
    check_classes,
    check_consensus,
    check_voting,
    network_digest,
)
from smoothcert.engine.errors import DeviceError, MemberError, NormalisationError, PixelsError
from smoothcert.engine.form import Form, prepare
from smoothcert.engine.normalisation import Normalisation, normalised
from smoothcert.engine.outputs import LogitsOf, are_probabilities, count_classes, first_output
from smoothcert.engine.pixels import Pixels
from smoothcert.errors import DomainError, explain, require_count
from smoothcert.evaluation import Judged
from smoothcert.noise import NOISES, Noise
from smoothcert.plan import plan
from smoothcert.procedures import PROCEDURES, Fixed, Optimal, Parameters
from smoothcert.procedures import predict as prediction
from smoothcert.question import Question
from smoothcert.report import Report

IN_MEMORY = "in-memory"
"""The name of an ensemble that has no files, and the prefix of its members' architectures."""
WINDOW = 64
"""The images of `certify_many` that are in the engine at once: enough for full batches, and little memory."""


class SmoothedWarning(UserWarning):
    """Something about a model that Smoothed has corrected, or that is probably not intended."""


class Smoothed:
    """A classifier smoothed by noise: its answer is the class that the model most often gives under the noise.

    `models` is an nn.Module, or a list of them that vote as an ensemble, best first. They take images [N, C, H, W] in
    [0, 1], or what `mean` and `std` (a number, or one for each channel) make of them, and return logits [N, classes].
    Smoothed keeps copies in eval mode, so training a model further does not change it.

    `classes` are names, or their number; without them the number is found by a forward pass, and certificates have no
    class names. `voting` is soft, softmax or hard. With `consensus` K, the other models are asked only where the
    first K disagree. `device` is that of the first model by default. `batch` samples run at a time.

    All images of one object have the same shape, that of the first. The sampling thread starts with the first call
    and ends with `close`, at the end of a `with` block, or when the object is garbage collected; a call after `close`
    starts another. An object may be used from several threads.
    """

    def __init__(
        self,
        models: nn.Module | Sequence[nn.Module],
        noise: Noise,
        *,
        classes: Sequence[str] | int | None = None,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        voting: str = "soft",
        consensus: int | None = None,
        device: str | torch.device | None = None,
        batch: int = 256,
    ) -> None:
        given = _networks(models)
        if not isinstance(noise, Noise):
            raise DomainError(f"noise must be a noise such as Gaussian(0.25), got {noise!r}")
        if type(noise) not in set(NOISES):
            raise DomainError(
                f"{type(noise).__qualname__} is not registered: call NOISES.add({type(noise).__qualname__})"
            )
        require_count("batch", batch)
        check_voting(voting, None)
        check_consensus(consensus, members=len(given))
        _check_class_names(classes)
        if (mean is None) != (std is None):
            raise NormalisationError(f"mean and std belong together, got mean {mean!r} and std {std!r}")
        self.noise, self.batch = noise, batch
        self._classes, self._mean, self._std = classes, mean, std
        self._voting, self._consensus = voting, consensus
        self._trained = any(_in_train_mode(network) for network in given)
        self._device = _device(given, device)
        self._copies = [_copy(network, self._device) for network in given]
        self._lock = threading.Lock()
        self._ensemble: Ensemble | None = None
        self._engine: Engine | None = None
        self._finalizer: Any = None
        self._tell(given)

    def certify(
        self,
        images: Any,
        radius: float | None = None,
        *,
        procedure: str | Parameters | Mapping[str, Any] | None = None,
        alpha: float = 0.001,
        beta: float = 0.001,
        family_wise: bool = False,
        seed: str | int | None = None,
    ) -> list[Certificate]:
        """A certificate for each image, in their order; for one image [C, H, W] a list of one.

        With probability at least 1 - alpha a certificate abstains, or the smoothed classifier gives its class
        everywhere within its radius; with `family_wise` this holds for all images together. `images` are
        [N, C, H, W], uint8 or floating-point in [0, 1]. The procedure is `optimal` with a radius to prove, and
        `fixed`, which proves the largest radius it can, without one. The seed is random unless a run is to be
        repeated.
        """
        batch = as_images(images)
        shared = len(batch) if family_wise else None
        question = self._question(radius, procedure, alpha=alpha, beta=beta, images=shared)
        return list(self._certified([batch], question, _seed(seed)))

    def certify_many(
        self,
        loader: Iterable[Any],
        radius: float | None = None,
        *,
        procedure: str | Parameters | Mapping[str, Any] | None = None,
        alpha: float = 0.001,
        beta: float = 0.001,
        seed: str | int | None = None,
        progress: bool | None = None,
    ) -> Generator[Certificate, None, None]:
        """Certificates one by one, of as many images as a loader yields: `certify` in bounded memory.

        The loader is any iterable of images, batches, or pairs (images, labels), whose labels are ignored. It is read
        as certificates are taken, at most WINDOW images ahead. A bar shows the progress on a terminal and in a
        notebook, if rich is installed; `progress` True or False overrides that.
        """
        question = self._question(radius, procedure, alpha=alpha, beta=beta)
        batches = image_batches(loader)
        return self._shown(self._certified(batches, question, _seed(seed)), count_images(loader), progress)

    def predict(
        self, images: Any, n: int = 1000, alpha: float = 0.001, *, seed: str | int | None = None
    ) -> list[int | None]:
        """The class index of the smoothed classifier for each image from n samples, or None for an abstention.

        Each class is wrong with probability at most alpha. No radius is proved.
        """
        batch, text = as_images(images), _seed(seed)
        engine = self._engine_for(batch)
        handles = [
            engine.submit(prediction(n=n, alpha=alpha), image, self.noise, text, index=index)
            for index, image in enumerate(batch)
        ]
        try:
            return [handle.result().verdict.top_class for handle in handles]
        finally:
            for handle in handles:
                handle.cancel()  # does nothing to a run that has ended

    def evaluate(
        self,
        loader: Any,
        radius: float | None = None,
        *,
        procedure: str | Parameters | Mapping[str, Any] | None = None,
        alpha: float = 0.001,
        beta: float = 0.001,
        seed: str | int | None = None,
        progress: bool | None = None,
        name: str = IN_MEMORY,
    ) -> Report:
        """Certify a data set and judge the certificates by its labels: ACR, certified accuracy, samples.

        The loader yields pairs (images, labels), or is one such pair. The report is that of `smoothcert evaluate`; it
        has `figures`, `curve`, `to_pandas()` and `plot()`, and its `name` is the title.
        """
        question = self._question(radius, procedure, alpha=alpha, beta=beta)
        labels: list[int] = []

        def batches() -> Iterator[Tensor]:
            for images, batch_labels in labelled_batches(loader):
                classes = len(self._ensemble_for(images).classes)
                labels.extend(as_labels(batch_labels, images=len(images), classes=classes))
                yield images

        certified = self._certified(batches(), question, _seed(seed))
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
            Pixels.of(image, _shape(batch))
        ensemble = self._plain(batch)
        known = as_labels(labels, images=len(batch), classes=len(ensemble.classes))
        return diagnose(ensemble, as_float(batch), known, noise=self.noise, in_train_mode=self._trained, seed=seed)

    def close(self) -> None:
        """End the sampling thread; certifications that are under way fail with ClosedError."""
        with self._lock:
            finalizer, self._engine, self._finalizer = self._finalizer, None, None
        if finalizer is not None:
            finalizer()

    def __enter__(self) -> Smoothed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(type(network).__qualname__ for network in self._copies)
        return f"Smoothed([{names}], {self.noise!r}, voting={self._voting!r}, device={str(self._device)!r})"

    # --- questions

    def _question(
        self,
        radius: float | None,
        procedure: str | Parameters | Mapping[str, Any] | None,
        *,
        alpha: float,
        beta: float,
        images: int | None = None,
    ) -> Question:
        """A question that can be answered; DomainError says why another cannot. `images` share alpha."""
        chosen = _procedure(procedure, radius)
        question = Question(self.noise, chosen, radius, alpha, beta)
        question = question if images is None else question.shared_by(images)
        if radius is None:
            question.start()
            return question
        if not chosen.targeted:
            raise DomainError(
                f"radius is {radius!r}, but the {chosen.name} procedure proves the largest radius it can: leave the "
                f"radius out, or use the optimal procedure"
            )
        self.noise.require_radius(radius)
        proposed = plan(chosen, self.noise, radius, alpha=question.alpha, beta=beta)
        if not proposed.feasible:
            raise DomainError(proposed.reason)
        return question

    # --- certifying

    def _certified(
        self, batches: Iterable[Tensor], question: Question, seed: str
    ) -> Generator[Certificate, None, None]:
        """Certificates in the order of the images, with at most WINDOW of them in the engine."""
        waiting: deque[Case] = deque()
        try:
            for index, (engine, image) in enumerate(self._submissions(batches)):
                waiting.append(start(engine, image, question, seed=seed, index=index))
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
            engine = self._engine_for(batch)
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

    # --- building the ensemble and the engine, once the shape of the images is known

    def _engine_for(self, images: Tensor) -> Engine:
        ensemble = self._ensemble_for(images)
        with self._lock:
            if self._engine is None:
                self._engine = Engine(ensemble, batch=self.batch)
                self._finalizer = weakref.finalize(self, Engine.close, self._engine)
            return self._engine

    def _ensemble_for(self, images: Tensor) -> Ensemble:
        """The ensemble, built for images of this shape when the first come."""
        with self._lock:
            if self._ensemble is None:
                self._ensemble = self._build(images)
            ensemble = self._ensemble
        if (shape := tuple(images.shape[1:])) != ensemble.input_shape:
            raise PixelsError(
                f"the images have shape {shape}, and the first ones had {ensemble.input_shape}: resize them, or make "
                f"another Smoothed for them"
            )
        return ensemble

    def _build(self, images: Tensor) -> Ensemble:
        shape, probe = _shape(images), as_float(images[:16]).to(self._device)
        normalisation = self._normalisation(shape[0])
        networks = [_Network.of(each, normalisation, probe) for each in self._copies]
        classes = self._class_names(networks)
        members = tuple(
            network.member(
                prepare(
                    network.module,
                    name=network.name,
                    classes=len(classes),
                    input_shape=shape,
                    batch=self.batch,
                    device=str(self._device),
                )
            )
            for network in networks
        )
        ensemble = self._assembled(members, classes, shape)
        if are_probabilities(ensemble.logits(probe)):
            self._warn_of_probabilities()
        return ensemble

    def _plain(self, images: Tensor) -> Ensemble:
        """The ensemble without the checks and optimisations of `prepare`, which a model to be diagnosed may fail."""
        shape, probe = _shape(images), as_float(images[:16]).to(self._device)
        normalisation = self._normalisation(shape[0])
        try:
            networks = [_Network.of(each, normalisation, probe) for each in self._copies]
        except MemberError as error:
            if normalisation is not None:
                raise
            try:
                networks = [_Network.of(each, None, probe.permute(0, 2, 3, 1)) for each in self._copies]
            except MemberError:
                raise error from None  # the images in their own layout say more
        rows = min(self.batch, 64)
        members = tuple(
            network.member(Form(network.module.to(self._device), "plain", (rows, *shape), self._device, torch.float32))
            for network in networks
        )
        return self._assembled(members, self._class_names(networks), shape)

    def _assembled(
        self, members: tuple[Member, ...], classes: tuple[str, ...], shape: tuple[int, int, int]
    ) -> Ensemble:
        named = not (self._classes is None or isinstance(self._classes, int))
        return Ensemble(IN_MEMORY, members, classes, shape, self.noise, self._voting, self._consensus, named=named)

    def _normalisation(self, channels: int) -> Normalisation | None:
        if self._mean is None or self._std is None:
            return None
        mean, std = (_per_channel(name, value, channels) for name, value in (("mean", self._mean), ("std", self._std)))
        return Normalisation(mean, std)

    def _class_names(self, networks: Sequence[_Network]) -> tuple[str, ...]:
        """The given names, or the numbers 0, 1, ... as text; all models must agree on how many there are."""
        counts = [network.classes for network in networks]
        if len(set(counts)) > 1:
            raise MemberError(f"the models tell {', '.join(map(str, counts))} classes apart; all must have the same")
        names = [str(i) for i in range(counts[0])] if self._classes is None else self._classes
        names = [str(i) for i in range(names)] if isinstance(names, int) else names
        if len(names) != counts[0]:
            raise MemberError(f"there are {len(names)} classes, and the model returns {counts[0]} logits")
        return tuple(names)

    # --- warnings

    def _tell(self, given: Sequence[nn.Module]) -> None:
        if self._trained:
            _warn("the model is in train mode; Smoothed runs a copy of it in eval mode, without dropout and with the "
                  "running statistics of batch norm")  # fmt: skip
        elsewhere = sorted({str(place) for place in map(_place, given) if not _same(place, self._device)})
        if elsewhere:
            _warn(f"a model is on {', '.join(elsewhere)}; Smoothed runs a copy of it on {self._device}")

    def _warn_of_probabilities(self) -> None:
        effect = (
            "this does not change the classes of a single model"
            if len(self._copies) == 1
            else f"{self._voting} voting then combines probabilities where it expects logits"
        )
        if self._voting != "hard":
            _warn(
                f"the model returns probabilities: its rows are non-negative and sum to 1. Return logits, without the "
                f"softmax; {effect}"
            )


@dataclass(frozen=True)
class _Network:
    """A copy of a user's model, ready to be a member."""

    name: str
    inner: nn.Module
    module: nn.Module
    """`inner` behind its normalisation, with the logits unwrapped."""
    normalisation: Normalisation | None
    classes: int

    @classmethod
    def of(cls, network: nn.Module, normalisation: Normalisation | None, probe: Tensor) -> _Network:
        module = normalised(network, normalisation).to(probe.device)
        name = type(network).__qualname__
        output = first_output(module, probe, name=name)
        classes = count_classes(output, rows=len(probe), name=name)
        plain = isinstance(output, Tensor)
        return cls(name, network, module if plain else LogitsOf(module), normalisation, classes)

    def member(self, form: Form) -> Member:
        identity = Identity(f"{IN_MEMORY}:{self.name}", network_digest(self.inner), self.normalisation)
        return Member(self.name, identity, self.module, form)


def _networks(models: nn.Module | Sequence[nn.Module]) -> list[nn.Module]:
    networks: list[Any] = [*models] if isinstance(models, list | tuple | nn.ModuleList) else [models]
    if not networks:
        raise MemberError("there are no models: the list is empty")
    for network in networks:
        if not isinstance(network, nn.Module):
            raise MemberError(f"a model must be a torch.nn.Module, got {type(network).__qualname__}")
    return networks


def _copy(network: nn.Module, device: torch.device) -> nn.Module:
    try:
        return copy.deepcopy(network).eval().to(device)
    except Exception as error:  # whatever a foreign network raises
        name = type(network).__qualname__
        raise MemberError(f"{name} cannot be copied to {device}: {type(error).__name__}: {error}") from error


def _check_class_names(classes: Sequence[str] | int | None) -> None:
    if classes is None:
        return
    if isinstance(classes, int):
        require_count("classes", classes, least=2)
    elif not isinstance(classes, list | tuple) or not all(isinstance(name, str) for name in classes):
        raise MemberError(f"classes must be a list of names or their number, got {classes!r}")
    else:
        check_classes(classes)


def _procedure(procedure: str | Parameters | Mapping[str, Any] | None, radius: float | None) -> Parameters:
    if procedure is None:
        return Fixed() if radius is None else Optimal()
    try:
        return PROCEDURES.validate(procedure)
    except ValidationError as error:
        raise DomainError(f"procedure: {explain(error)}") from None


def _seed(seed: str | int | None) -> str:
    return new_seed() if seed is None else str(seed)


def _shape(images: Tensor) -> tuple[int, int, int]:
    _, channels, height, width = images.shape
    return channels, height, width


def _per_channel(name: str, value: float | Sequence[float], channels: int) -> tuple[float, ...]:
    try:
        numbers = np.asarray(value, dtype=np.float64)  # also a tensor of shape [C, 1, 1], and numpy's numbers
    except (TypeError, ValueError) as error:
        raise NormalisationError(f"{name} must be a number or one number per channel, got {value!r}") from error
    found = tuple(numbers.reshape(-1).tolist())
    if numbers.ndim == 0:
        return found * channels
    if len(found) != channels:
        raise NormalisationError(f"{name} has {len(found)} numbers, and the images have {channels} channels")
    return found


def _place(network: nn.Module) -> torch.device | None:
    """The device of the first tensor of a network; None where it has none."""
    for tensor in (*network.parameters(), *network.buffers()):
        return tensor.device
    return None


def _device(networks: Sequence[nn.Module], device: str | torch.device | None) -> torch.device:
    """The given device, or that of the first model; DeviceError where it cannot be used."""
    if device is None:
        places = [place for network in networks if (place := _place(network)) is not None]
        chosen = places[0] if places else torch.device("cpu")
    else:
        try:
            chosen = torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise DeviceError(f"device must be a name such as cpu or cuda:0, got {device!r}") from error
    if chosen.type == "meta":
        raise DeviceError("the model is on the device meta, where tensors have no values: load its weights first")
    try:
        torch.empty(1, device=chosen).cpu()
    except Exception as error:  # torch raises RuntimeError, AssertionError and others, by device
        raise DeviceError(f"the device {str(chosen)!r} cannot be used here: {error}") from error
    return chosen


def _same(place: torch.device | None, device: torch.device) -> bool:
    """Whether two names mean one device; cuda without an index is any of them."""
    if place is None or place == device:
        return True
    return place.type == device.type and None in (place.index, device.index)


def _in_train_mode(network: nn.Module) -> bool:
    return any(getattr(module, "training", False) for module in network.modules())


def _warn(message: str) -> None:
    warnings.warn(message, SmoothedWarning, stacklevel=4)  # a constructor warns at the line that called it
