"""The description of an ensemble, and its file `ensemble.toml`:

architecture = "cifar-resnet20"            # see models/architectures.py
classes = ["airplane", ...]
input_shape = [3, 32, 32]
sigma = 0.25                               # the noise of training: Gaussian, or else a table [noise]
method = "gaussian"
evaluation = "0::20"                       # test images kept for evaluation; no hold-out may overlap them
voting = "soft"                            # optional defaults of a request
consensus = 2
limits = [-50.0, 50.0]                     # optional: the range of the logits, so that soft votes may end early
normalisation = { mean = [...], std = [...] }        # optional

[classifier]                               # only where the members are denoisers in front of one classifier, whose
file, sha256, bytes                        # architecture and normalisation are those above
[classifier.training]                      # the record of its training, as it came
[denoiser]
architecture = "dncnn-half-8x48"           # of the members, see models/architectures.py

[[members]]                                # in ranked order, best first
file = "gaussian-0.safetensors"
sha256 = "..."                             # the member's digest, unless it is a denoiser (see engine/denoised.py)
bytes = 1113356
architecture, normalisation                # optional, where this member's differ
[members.training]                         # the record of its training, as it came

[noise]                                    # in place of sigma: any noise by its name
name, ...                                  # and its parameters

[[superclasses]]                           # optional, for `hierarchy`: a table for each level, from fine to coarse
animal = ["bird", ...]                     # names of classes; those that a level does not name stay alone

[ranking]                                  # written by `models rank`
data, data_digest, holdout, images, draws, sigma (or noise), seed
[ranking.accuracies]                       # by member digest
[weights]                                  # by member digest, for weighted voting
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import tomlkit
from pydantic import ValidationError

from models.errors import DescriptionError
from models.selection import Selection
from models.toml import TomlTable, read_toml
from smoothcert.engine.composition import check_classes, check_consensus, check_members, check_voting, check_weights
from smoothcert.engine.denoised import chained
from smoothcert.engine.exits import Limits, check_limits
from smoothcert.engine.identity import Identity, ensemble_digest
from smoothcert.engine.normalisation import Normalisation
from smoothcert.errors import DomainError, SmoothcertError, explain
from smoothcert.noise import Noise, resolve, stated
from smoothcert.procedures import Hierarchy, Superclass

FILE = "ensemble.toml"
MAX_BYTES = 1 << 20
"""The largest `ensemble.toml` that is read, in bytes: room for thousands of members."""
MAX_VALUES = 1 << 24
"""The most values of an image, which bounds the memory that a description can claim: 3 x 2048 x 2048 fits."""
_MEMBER_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\.(safetensors|pt|pt2|onnx|json)")


@dataclass(frozen=True)
class MemberFile:
    """A member on disk, or the classifier behind denoisers.

    `architecture` and `normalisation` are set only where they differ from the ensemble's.
    """

    file: str
    sha256: str
    bytes: int
    architecture: str | None = None
    normalisation: Normalisation | None = None
    training: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _MEMBER_FILE.fullmatch(self.file):
            raise DescriptionError(
                f"member file {self.file!r} is not a plain name of a .safetensors, .pt, .pt2, .onnx or .json file"
            )
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise DescriptionError(f"member {self.file}: sha256 {self.sha256!r} is not 64 hexadecimal digits")
        if self.bytes < 1:
            raise DescriptionError(f"member {self.file}: bytes must be positive, got {self.bytes}")


@dataclass(frozen=True)
class DenoiserDefaults:
    """What the denoisers of an ensemble have in common."""

    architecture: str


@dataclass(frozen=True)
class Ranking:
    """How the members were put in order: accuracy under noise on a hold-out."""

    data: str
    data_digest: str
    holdout: str
    images: int
    draws: int
    noise: Noise
    seed: int
    accuracies: Mapping[str, float]


@dataclass(frozen=True)
class Description:
    """The content of an `ensemble.toml`, checked to be consistent."""

    architecture: str
    classes: tuple[str, ...]
    input_shape: tuple[int, int, int]
    noise: Noise
    members: tuple[MemberFile, ...]
    method: str = "unknown"
    evaluation: str = "0::20"
    voting: str = "soft"
    consensus: int | None = None
    normalisation: Normalisation | None = None
    classifier: MemberFile | None = None
    """The classifier behind the members, which are denoisers then."""
    denoiser: DenoiserDefaults | None = None
    ranking: Ranking | None = None
    weights: Mapping[str, float] | None = None
    limits: Limits | None = None
    """The range to which the logits of the members are limited."""
    superclasses: tuple[Mapping[str, Sequence[str]], ...] | None = None
    """Levels of superclasses, from fine to coarse: for the name of each, the names of its classes."""

    def __post_init__(self) -> None:
        self._check_denoisers()
        digests = [self.identity(member).digest for member in self.members]
        files = [file.file for file in self.files]
        check_members(digests)
        if len(set(files)) != len(files):
            raise DescriptionError(f"two members share a file: {files}")
        check_classes(self.classes)
        if len(self.input_shape) != 3 or min(self.input_shape) < 1:
            raise DescriptionError(f"input_shape {list(self.input_shape)} is not [C, H, W] of positive numbers")
        try:
            self.noise.require_images(self.input_shape)
        except DomainError as error:
            raise DescriptionError(f"noise: {error}") from error
        if math.prod(self.input_shape) > MAX_VALUES:
            raise DescriptionError(f"input_shape {list(self.input_shape)} has more than {MAX_VALUES:,} values")
        Selection(self.evaluation)
        check_consensus(self.consensus, members=len(self.members))
        check_weights(self.weights, digests)
        check_voting(self.voting, self.weights)
        check_limits(self.limits)
        _ = self.levels
        if self.ranking and set(self.ranking.accuracies) != set(digests):
            raise DescriptionError(
                f"the ranking is of other members: {sorted(self.ranking.accuracies)}, not {sorted(digests)}"
            )
        for normalisation in (self.normalisation, *(file.normalisation for file in self.files)):
            if normalisation and len(normalisation.mean) != self.input_shape[0]:
                raise DescriptionError(f"{len(normalisation.mean)} means for {self.input_shape[0]} channels")

    def _check_denoisers(self) -> None:
        if (self.classifier is None) != (self.denoiser is None):
            present, missing = ("classifier", "denoiser") if self.denoiser is None else ("denoiser", "classifier")
            raise DescriptionError(f"{missing} is missing: the tables classifier and denoiser go together, and there "
                                   f"is only {present}")  # fmt: skip
        if self.classifier and (normalised := [member.file for member in self.members if member.normalisation]):
            raise DescriptionError(
                f"members that are denoisers have no normalisation of their own, and {', '.join(normalised)} has one: "
                f"the normalisation belongs to the classifier"
            )

    @property
    def files(self) -> tuple[MemberFile, ...]:
        """The files of the members, and then that of their classifier, if they are denoisers."""
        return self.members if self.classifier is None else (*self.members, self.classifier)

    def stage(self, file: MemberFile) -> Identity:
        """The identity of one file, with the architecture and normalisation of the ensemble unless it has its own."""
        if self.denoiser is not None and file is not self.classifier:
            return Identity(file.architecture or self.denoiser.architecture, file.sha256)
        return Identity(file.architecture or self.architecture, file.sha256, file.normalisation or self.normalisation)

    def identity(self, member: MemberFile) -> Identity:
        """The identity of a member; that of a denoiser includes the classifier behind it."""
        own = self.stage(member)
        return own if self.classifier is None else chained(own, self.stage(self.classifier))

    @cached_property
    def levels(self) -> tuple[tuple[Superclass, ...], ...]:
        """The declared superclasses by the numbers of their classes; DescriptionError where one is not a class here."""
        if self.superclasses is None:
            return ()
        numbers = {name: number for number, name in enumerate(self.classes)}
        for name, classes in (each for level in self.superclasses for each in level.items()):
            if unknown := [each for each in classes if each not in numbers]:
                raise DescriptionError(f"the superclass {name!r} has {unknown[0]!r}, which is not among the classes")
        levels = [
            [{"name": name, "classes": sorted(numbers[each] for each in classes)} for name, classes in level.items()]
            for level in self.superclasses
        ]
        try:
            return tuple(map(tuple, Hierarchy.model_validate({"levels": levels}).known))
        except ValidationError as error:
            raise DescriptionError(f"superclasses: {explain(error, whole='')}") from error

    @property
    def architectures(self) -> str:
        """The architectures of the members, each once, in ranked order."""
        return ", ".join(dict.fromkeys(self.identity(member).architecture for member in self.members))

    @property
    def digest(self) -> str:
        """The digest of the ensemble; see `smoothcert.engine.identity.ensemble_digest`."""
        identities = [self.identity(member) for member in self.members]
        return ensemble_digest(identities, self.classes, self.input_shape, self.weights, self.limits)

    def ranked(self, ranking: Ranking, weights: Mapping[str, float]) -> Description:
        """The members in order of their accuracies, best first; ties are broken by digest, so the order is unique."""
        digests = {member.file: self.identity(member).digest for member in self.members}
        order = sorted(
            self.members, key=lambda member: (-ranking.accuracies[digests[member.file]], digests[member.file])
        )
        return replace(self, members=tuple(order), ranking=ranking, weights=weights)


def parse(text: str) -> Description:
    """Read an `ensemble.toml`; an unknown, missing or mistyped key is an error that names it."""
    table = read_toml(text)
    try:
        return _description(TomlTable("", table))
    except DescriptionError:
        raise
    except SmoothcertError as error:
        raise DescriptionError(str(error)) from error
    except RecursionError as error:
        raise DescriptionError("nested too deeply") from error


def write(description: Description) -> str:
    """The text of an `ensemble.toml`, such that `parse(write(d)) == d`."""
    document = tomlkit.document()
    for key, value in _plain(description).items():
        document[key] = value
    return tomlkit.dumps(document)


def read_noise(table: TomlTable) -> Noise:
    """The noise that a table states: by the shorthand `sigma`, or by a table `noise`, and not by both."""
    sigma, noise = table.find("sigma", float, int), table.find("noise", dict)
    if sigma is not None and noise is not None:
        raise DescriptionError(f"{table.where}sigma and {table.where}noise are both given: state one of them")
    try:
        chosen = resolve(noise, None if sigma is None else float(sigma))
    except DomainError as error:
        raise DescriptionError(f"{table.where}{error}") from error
    except ValidationError as error:
        raise DescriptionError(f"{table.where}noise: {explain(error, whole='')}") from error
    if chosen is None:
        raise DescriptionError(f"{table.where}noise is missing: state sigma for Gaussian noise, or else a table noise")
    return chosen


def _description(table: TomlTable) -> Description:
    members = [_member(TomlTable(f"members[{i}].", entry)) for i, entry in enumerate(table.several("members", dict))]
    description = {
        "architecture": table.take("architecture", str),
        "classes": table.several("classes", str),
        "input_shape": table.several("input_shape", int),
        "noise": read_noise(table),
        "members": tuple(members),
        "method": table.find("method", str),
        "evaluation": table.find("evaluation", str),
        "voting": table.find("voting", str),
        "consensus": table.find("consensus", int),
        "normalisation": _normalisation(table),
        "classifier": _classifier(table),
        "denoiser": _denoiser(table),
        "ranking": _ranking(table),
        "weights": table.numbers("weights"),
        "limits": _limits(table),
        "superclasses": _superclasses(table),
    }
    table.done()
    return Description(**{key: value for key, value in description.items() if value is not None})


def _member(table: TomlTable) -> MemberFile:
    member = MemberFile(
        file=table.take("file", str),
        sha256=table.take("sha256", str),
        bytes=table.take("bytes", int),
        architecture=table.find("architecture", str),
        normalisation=_normalisation(table),
        training=table.find("training", dict) or {},
    )
    table.done()
    return member


def _classifier(table: TomlTable) -> MemberFile | None:
    found = table.find("classifier", dict)
    return None if found is None else _member(TomlTable("classifier.", found))


def _denoiser(table: TomlTable) -> DenoiserDefaults | None:
    found = table.find("denoiser", dict)
    if found is None:
        return None
    inner = TomlTable("denoiser.", found)
    defaults = DenoiserDefaults(inner.take("architecture", str))
    inner.done()
    return defaults


def _normalisation(table: TomlTable) -> Normalisation | None:
    found = table.find("normalisation", dict)
    if found is None:
        return None
    inner = TomlTable("normalisation.", found)
    mean, std = inner.several("mean", float, int), inner.several("std", float, int)
    inner.done()
    return Normalisation(tuple(map(float, mean)), tuple(map(float, std)))


def _limits(table: TomlTable) -> Limits | None:
    found = table.find("limits", list)
    if found is None:
        return None
    if len(found) != 2 or not all(type(end) in (int, float) for end in found):
        raise DescriptionError(f"limits = {found!r} is not a list of two numbers")
    return float(found[0]), float(found[1])


def _superclasses(table: TomlTable) -> tuple[Mapping[str, Sequence[str]], ...] | None:
    found = table.find("superclasses", list)
    if found is None:
        return None
    levels = [(TomlTable(f"superclasses[{i}].", each), each) for i, each in enumerate(found)]
    return tuple({name: list(level.several(name, str)) for name in each} for level, each in levels)


def _ranking(table: TomlTable) -> Ranking | None:
    found = table.find("ranking", dict)
    if found is None:
        return None
    inner = TomlTable("ranking.", found)
    ranking = Ranking(
        data=inner.take("data", str),
        data_digest=inner.take("data_digest", str),
        holdout=inner.take("holdout", str),
        images=inner.take("images", int),
        draws=inner.take("draws", int),
        noise=read_noise(inner),
        seed=inner.take("seed", int),
        accuracies=inner.numbers("accuracies") or {},
    )
    inner.done()
    return ranking


def _plain(value: Any) -> Any:
    """Dataclasses as tables, without None and empty tables; plain values before tables, as TOML requires."""
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if not hasattr(value, "__dataclass_fields__"):
        return dict(value) if isinstance(value, Mapping) else value
    fields: dict[str, Any] = {}
    for key in value.__dataclass_fields__:
        entry = getattr(value, key)
        fields.update(stated(entry) if isinstance(entry, Noise) else {key: _plain(entry)})
    present = {key: entry for key, entry in fields.items() if entry is not None and entry != {}}
    return dict(sorted(present.items(), key=lambda item: _is_table(item[1])))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))
