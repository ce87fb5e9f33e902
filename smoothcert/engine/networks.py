"""The models that a user hands to `Smoothed`: copied, checked, and made into an ensemble.

Copies are made at once, so that training a model further changes nothing. The ensemble is built when the first images
come, because only then the shape of the input and the number of channels are known.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.engine.batches import as_float
from smoothcert.engine.composition import check_classes, check_consensus, repeated
from smoothcert.engine.denoised import Shared, check_denoiser
from smoothcert.engine.ensemble import Ensemble, Member
from smoothcert.engine.errors import MemberError, NormalisationError, reason
from smoothcert.engine.form import Form, optimiser_of, prepare
from smoothcert.engine.named import Named
from smoothcert.engine.normalisation import Normalisation
from smoothcert.engine.outputs import are_probabilities
from smoothcert.engine.placement import choose_device, place_of, same_device
from smoothcert.engine.precision import dtype_of
from smoothcert.engine.ready import IN_MEMORY, ReadyModel, name_of
from smoothcert.engine.voting import require_unweighted
from smoothcert.engine.warning import warn
from smoothcert.errors import require_count
from smoothcert.noise import Noise

PROBE = 16
"""The most images of the first batch that are run to see what the models return."""
PLAIN_ROWS = 64
"""The most images that a model in its plain form takes at a time."""

_D = TypeVar("_D")
_C = TypeVar("_C")

Model = nn.Module | str | Path
"""A network, or a name of one (see `engine.named`)."""
Classes = Sequence[str] | int | None
PerChannel = float | Sequence[float] | None


@dataclass(frozen=True)
class Networks:
    """Copies of the models on one device, and how they are to become an ensemble."""

    copies: tuple[nn.Module, ...]
    normalisations: tuple[Normalisation | None, ...]
    """For each copy, the normalisation that its configuration names; `mean` and `std` replace all of them."""
    denoisers: tuple[nn.Module, ...]
    """One for all copies, one for each copy, or several for one copy; none where the copies stand alone."""
    device: torch.device
    in_train_mode: bool
    """Whether a model came in train mode; the copies are in eval mode."""
    noise: Noise
    classes: Classes
    mean: PerChannel
    std: PerChannel
    voting: str
    consensus: int | None
    batch: int
    precision: str
    runtime: str

    @classmethod
    def of(
        cls,
        models: Model | Sequence[Model],
        noise: Noise,
        *,
        denoiser: nn.Module | Sequence[nn.Module] | None = None,
        classes: Classes,
        mean: PerChannel,
        std: PerChannel,
        voting: str,
        consensus: int | None,
        device: str | torch.device | None,
        batch: int,
        precision: str = "float32",
        runtime: str = "torch",
    ) -> Networks:
        """Copies of these models; an EngineError or DomainError names the argument that is wrong."""
        opened = [_opened(model) for model in _several(models)]
        classifiers = _modules([each.network for each in opened], "model")
        denoisers = [] if denoiser is None else _modules(denoiser, "denoiser")
        given = [*classifiers, *denoisers]
        require_count("batch", batch)
        require_unweighted(voting)
        check_consensus(consensus, members=_count_members(len(classifiers), len(denoisers)))
        _check_class_names(classes)
        if (mean is None) != (std is None):
            raise NormalisationError(f"mean and std belong together, got mean {mean!r} and std {std!r}")
        place = choose_device(given, device)
        dtype_of(precision)
        optimiser_of(runtime, place)
        in_train_mode = any(_in_train_mode(network) for network in given)
        copies = tuple(_copy(network, place) for network in given)
        if in_train_mode:
            warn("the model is in train mode; Smoothed runs a copy of it in eval mode, without dropout and with the "
                 "running statistics of batch norm")  # fmt: skip
        elsewhere = sorted({str(other) for other in map(place_of, given) if not same_device(other, place)})
        if elsewhere:
            warn(f"a model is on {', '.join(elsewhere)}; Smoothed runs a copy of it on {place}")
        own, before = copies[: len(classifiers)], copies[len(classifiers) :]
        normalisations = tuple(each.normalisation for each in opened)
        names = _agreed_names(opened) if classes is None else classes
        batch = int(batch)  # numpy's whole numbers are not what torch takes as sizes
        return cls(own, normalisations, before, place, in_train_mode, noise, names, mean, std, voting, consensus, batch,
                   precision, runtime)  # fmt: skip

    @property
    def names(self) -> list[str]:
        """The names of the members."""
        classifiers, denoisers = (list(map(name_of, networks)) for networks in (self.copies, self.denoisers))
        if not denoisers:
            return classifiers
        return [f"{before} > {name}" for before, name in _paired(denoisers, classifiers)]

    def ensemble(self, images: Tensor) -> Ensemble:
        """The ensemble for images [N, C, H, W] of this shape, in its fastest form."""
        shape, probe = image_shape(images), self._probe(images)
        readied = self._readied(probe)
        classes = self._class_names(readied)
        members = tuple(
            network.member(
                prepare(
                    network.module,
                    name=network.name,
                    classes=len(classes),
                    input_shape=shape,
                    batch=self.batch,
                    device=str(self.device),
                    precision=self.precision,
                    runtime=self.runtime,
                )
            )
            for network in readied
        )
        ensemble = self._assembled(members, classes, shape)
        if are_probabilities(ensemble.logits(probe)):
            self._warn_of_probabilities()
        return ensemble

    def plain(self, images: Tensor) -> Ensemble:
        """The ensemble without the checks and optimisations of `prepare`, which a model to be diagnosed may fail."""
        shape, probe = image_shape(images), self._probe(images)
        try:
            readied = self._readied(probe)
        except MemberError as error:
            if self.mean is not None:
                raise
            try:
                readied = self._readied(probe.permute(0, 2, 3, 1))
            except MemberError:
                raise error from None  # the images in their own layout say more
        rows = min(self.batch, PLAIN_ROWS)
        members = tuple(
            network.member(Form(network.module.to(self.device), "plain", (rows, *shape), self.device, torch.float32))
            for network in readied
        )
        return self._assembled(members, self._class_names(readied), shape)

    def _probe(self, images: Tensor) -> Tensor:
        return as_float(images[:PROBE]).to(self.device)

    def _readied(self, probe: Tensor) -> list[ReadyModel]:
        given = self._normalisation(probe.shape[1])
        classifiers = [
            ReadyModel.of(network, given or own, probe)
            for network, own in zip(self.copies, self.normalisations, strict=True)
        ]
        if not self.denoisers:
            return classifiers
        for denoiser in self.denoisers:
            check_denoiser(denoiser, probe, name=name_of(denoiser))
        # Every stage is shared: where a stage has several partners, they all run one form of it.
        shared = [replace(classifier, module=Shared(classifier.module)) for classifier in classifiers]
        return [each.behind(denoiser) for denoiser, each in _paired(list(map(Shared, self.denoisers)), shared)]

    def _normalisation(self, channels: int) -> Normalisation | None:
        if self.mean is None or self.std is None:
            return None
        mean, std = (_per_channel(name, value, channels) for name, value in (("mean", self.mean), ("std", self.std)))
        return Normalisation(mean, std)

    def _assembled(
        self, members: tuple[Member, ...], classes: tuple[str, ...], shape: tuple[int, int, int]
    ) -> Ensemble:
        if places := repeated([member.digest for member in members]):
            raise MemberError(
                f"models {' and '.join(map(str, places))} are the same member: they have equal weights and classes of "
                f"the same names. Leave one out, or, if their code differs, give their classes different names"
            )
        named = not (self.classes is None or isinstance(self.classes, int))
        return Ensemble(IN_MEMORY, members, classes, shape, self.noise, self.voting, self.consensus, named=named)

    def _class_names(self, readied: Sequence[ReadyModel]) -> tuple[str, ...]:
        """The given names, or the numbers 0, 1, ... as text; all models must agree on how many there are."""
        counts = [network.classes for network in readied]
        if len(set(counts)) > 1:
            raise MemberError(f"the models have {', '.join(map(str, counts))} classes; all must have the same number")
        names = counts[0] if self.classes is None else self.classes
        names = [str(i) for i in range(names)] if isinstance(names, int) else names
        if len(names) != counts[0]:
            raise MemberError(f"there are {len(names)} classes, and the model returns {counts[0]} logits")
        return tuple(names)

    def _warn_of_probabilities(self) -> None:
        effect = (
            "this does not change the classes of a single model"
            if len(self.copies) == 1
            else f"{self.voting} voting then combines probabilities where it expects logits"
        )
        if self.voting != "hard":
            warn(
                f"the model returns probabilities: its rows are non-negative and sum to 1. Return logits, without the "
                f"softmax; {effect}"
            )


def _count_members(classifiers: int, denoisers: int) -> int:
    """How many members models and denoisers make: one of either goes with all of the others, else they are pairs."""
    if denoisers > 1 and classifiers > 1 and classifiers != denoisers:
        raise MemberError(
            f"there are {denoisers} denoisers and {classifiers} models: give one of either, or one denoiser for each "
            f"model"
        )
    return max(classifiers, denoisers)


def _paired(denoisers: Sequence[_D], classifiers: Sequence[_C]) -> list[tuple[_D, _C]]:
    count = _count_members(len(classifiers), len(denoisers))
    return [(denoisers[i % len(denoisers)], classifiers[i % len(classifiers)]) for i in range(count)]


def _several(models: Any) -> list[Any]:
    return [*models] if isinstance(models, list | tuple | nn.ModuleList) else [models]


def _opened(model: Any) -> Named:
    return Named.open(model) if isinstance(model, str | Path) else Named(model)


def _agreed_names(models: Sequence[Named]) -> tuple[str, ...] | None:
    """The names of the classes by the models' configurations; None where these have none, or different ones."""
    names = {each.classes for each in models if each.classes is not None}
    return names.pop() if len(names) == 1 else None


def _modules(models: nn.Module | Sequence[nn.Module], what: str) -> list[nn.Module]:
    networks: list[Any] = _several(models)
    if not networks:
        raise MemberError(f"there are no {what}s: the list is empty")
    for network in networks:
        if not isinstance(network, nn.Module):
            raise MemberError(f"a {what} must be a torch.nn.Module, got {type(network).__qualname__}")
    return networks


def _copy(network: nn.Module, device: torch.device) -> nn.Module:
    try:
        return copy.deepcopy(network).eval().to(device)
    except Exception as error:  # whatever a foreign network raises
        raise MemberError(f"{type(network).__qualname__} cannot be copied to {device}: {reason(error)}") from error


def _check_class_names(classes: Classes) -> None:
    if classes is None:
        return
    if isinstance(classes, int):
        require_count("classes", classes, least=2)
    elif not isinstance(classes, list | tuple) or not all(isinstance(name, str) for name in classes):
        raise MemberError(f"classes must be a list of names or their number, got {classes!r}")
    else:
        check_classes(classes)


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


def _in_train_mode(network: nn.Module) -> bool:
    return any(getattr(module, "training", False) for module in network.modules())


def image_shape(images: Tensor) -> tuple[int, int, int]:
    """The shape [C, H, W] of each image of a batch."""
    _, channels, height, width = images.shape
    return channels, height, width
