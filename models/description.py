"""`ensemble.toml`: what an ensemble says of itself.

architecture = "cifar-resnet20"            # see models/architectures.py
classes = ["airplane", ...]
input_shape = [3, 32, 32]
sigma = 0.25                               # the noise of training
method = "gaussian"
evaluation = "0::20"                       # test images kept for evaluation; no hold-out may overlap them
voting = "soft"                            # optional defaults of a request
consensus = 2
normalisation = { mean = [...], std = [...] }        # optional

[[members]]                                # in ranked order, best first
file = "gaussian-0.safetensors"
sha256 = "..."                             # the member's digest
bytes = 1113356
architecture, normalisation                # optional, where this member's differ
[members.training]                         # the record of its training, as it came

[ranking]                                  # written by `models rank`
data, data_digest, holdout, images, draws, sigma, seed
[ranking.accuracies]                       # by member digest
[weights]                                  # by member digest, for weighted voting
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import tomlkit

from models.errors import DescriptionError, ModelError
from models.selection import Selection
from smoothcert.engine.ensemble import (
    Identity,
    check_classes,
    check_consensus,
    check_members,
    check_voting,
    check_weights,
    ensemble_digest,
)
from smoothcert.engine.normalisation import Normalisation

FILE = "ensemble.toml"
MAX_BYTES = 1 << 20
MAX_VALUES = 1 << 24
"""Of an image: 3 x 2048 x 2048 and some more."""
_MEMBER_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\.(safetensors|pt|pt2)")


@dataclass(frozen=True)
class MemberFile:
    """A member on disk; `architecture` and `normalisation` are its own, where they differ from the ensemble's."""

    file: str
    sha256: str
    bytes: int
    architecture: str | None = None
    normalisation: Normalisation | None = None
    training: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _MEMBER_FILE.fullmatch(self.file):
            raise DescriptionError(f"member file {self.file!r} is not a plain name of a .safetensors, .pt or .pt2 file")
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise DescriptionError(f"member {self.file}: sha256 {self.sha256!r} is not 64 hexadecimal digits")
        if self.bytes < 1:
            raise DescriptionError(f"member {self.file}: bytes = {self.bytes}")


@dataclass(frozen=True)
class Ranking:
    """How the members were put in order: accuracy under noise on a hold-out."""

    data: str
    data_digest: str
    holdout: str
    images: int
    draws: int
    sigma: float
    seed: int
    accuracies: Mapping[str, float]


@dataclass(frozen=True)
class Description:
    """All that `ensemble.toml` says, checked to make sense."""

    architecture: str
    classes: tuple[str, ...]
    input_shape: tuple[int, int, int]
    sigma: float
    members: tuple[MemberFile, ...]
    method: str = "unknown"
    evaluation: str = "0::20"
    voting: str = "soft"
    consensus: int | None = None
    normalisation: Normalisation | None = None
    ranking: Ranking | None = None
    weights: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        digests = [member.sha256 for member in self.members]
        files = [member.file for member in self.members]
        check_members(digests)
        if len(set(files)) != len(files):
            raise DescriptionError(f"two members share a file: {files}")
        check_classes(self.classes)
        if len(self.input_shape) != 3 or min(self.input_shape) < 1:
            raise DescriptionError(f"input_shape {list(self.input_shape)} is not [C, H, W] of positive numbers")
        if math.prod(self.input_shape) > MAX_VALUES:
            raise DescriptionError(f"input_shape {list(self.input_shape)} has more than {MAX_VALUES:,} values")
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise DescriptionError(f"sigma = {self.sigma} is not a finite number >= 0")
        Selection(self.evaluation)
        check_consensus(self.consensus, members=len(self.members))
        check_weights(self.weights, digests)
        check_voting(self.voting, self.weights)
        if self.ranking and set(self.ranking.accuracies) != set(digests):
            raise DescriptionError(
                f"ranking of other members: {sorted(self.ranking.accuracies)}, not {sorted(digests)}"
            )
        for normalisation in (self.normalisation, *(member.normalisation for member in self.members)):
            if normalisation and len(normalisation.mean) != self.input_shape[0]:
                raise DescriptionError(f"{len(normalisation.mean)} means for {self.input_shape[0]} channels")

    def identity(self, member: MemberFile) -> Identity:
        """What a member is, with the ensemble's architecture and normalisation where it has none of its own."""
        return Identity(
            member.architecture or self.architecture,
            member.sha256,
            member.normalisation or self.normalisation,
        )

    @property
    def digest(self) -> str:
        """The digest of the ensemble; see `smoothcert.engine.ensemble.ensemble_digest`."""
        identities = [self.identity(member) for member in self.members]
        return ensemble_digest(identities, self.classes, self.input_shape, self.weights)

    def ranked(self, ranking: Ranking, weights: Mapping[str, float]) -> Description:
        """The members in order of their accuracies, best first; equals by digest, so that the order is one."""
        order = sorted(self.members, key=lambda member: (-ranking.accuracies[member.sha256], member.sha256))
        return replace(self, members=tuple(order), ranking=ranking, weights=weights)


def parse(text: str) -> Description:
    """Read an `ensemble.toml`; an unknown, missing or mistyped key is an error that names it."""
    table = read_toml(text)
    try:
        return _description(_Table("", table))
    except DescriptionError:
        raise
    except ModelError as error:
        raise DescriptionError(str(error)) from error
    except RecursionError as error:
        raise DescriptionError("nested too deeply") from error


def read_toml(text: str) -> dict[str, Any]:
    """What a TOML text says; a number that does not fit in 64 bits is an error, as TOML has it."""
    try:
        table = tomllib.loads(text)
    except ValueError as error:  # not only TOMLDecodeError: Python refuses to read numbers of thousands of digits
        raise DescriptionError(f"not TOML: {error}") from error
    except RecursionError as error:
        raise DescriptionError("not TOML: nested too deeply") from error
    left: list[Any] = [table]
    while left:  # not a recursion: dotted keys may nest deeper than Python can follow
        value = left.pop()
        if isinstance(value, dict | list):
            left.extend(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise DescriptionError(f"not TOML: an integer of {value.bit_length()} bits, more than 64")
    return table


def write(description: Description) -> str:
    """The text of an `ensemble.toml`, such that `parse(write(d)) == d`."""
    document = tomlkit.document()
    for key, value in _plain(description).items():
        document[key] = value
    return tomlkit.dumps(document)


class _Table:
    """A TOML table from which every key is taken once, with its type checked; what remains is unknown."""

    def __init__(self, where: str, content: Any) -> None:
        if not isinstance(content, dict):
            raise DescriptionError(f"{where} is {content!r}, not a table")
        self._where, self._left = where, dict(content)

    def take(self, key: str, *kinds: type) -> Any:
        """The value of a key that must be there."""
        if key not in self._left:
            raise DescriptionError(f"{self._where}{key} is missing")
        return self.find(key, *kinds)

    def find(self, key: str, *kinds: type) -> Any:
        """The value of a key, or None."""
        value = self._left.pop(key, None)
        if value is not None and type(value) not in kinds:
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise DescriptionError(f"{self._where}{key} = {value!r} is not of type {wanted}")
        return value

    def numbers(self, key: str) -> dict[str, float] | None:
        """A table of numbers, or None."""
        found = self.find(key, dict)
        if found is not None and not all(type(value) in (int, float) for value in found.values()):
            raise DescriptionError(f"{self._where}{key} = {found!r} is not a table of numbers")
        return None if found is None else {name: float(value) for name, value in found.items()}

    def several(self, key: str, *kinds: type) -> tuple[Any, ...]:
        """A list whose entries are all of these types."""
        found = self.take(key, list)
        if not all(type(entry) in kinds for entry in found):
            raise DescriptionError(f"{self._where}{key} = {found!r} is not a list of {kinds[0].__name__}")
        return tuple(found)

    def done(self) -> None:
        if self._left:
            raise DescriptionError(f"unknown keys: {', '.join(self._where + key for key in sorted(self._left))}")


def _description(table: _Table) -> Description:
    members = [_member(_Table(f"members[{i}].", entry)) for i, entry in enumerate(table.several("members", dict))]
    description = {
        "architecture": table.take("architecture", str),
        "classes": table.several("classes", str),
        "input_shape": table.several("input_shape", int),
        "sigma": float(table.take("sigma", float, int)),
        "members": tuple(members),
        "method": table.find("method", str),
        "evaluation": table.find("evaluation", str),
        "voting": table.find("voting", str),
        "consensus": table.find("consensus", int),
        "normalisation": _normalisation(table),
        "ranking": _ranking(table),
        "weights": table.numbers("weights"),
    }
    table.done()
    return Description(**{key: value for key, value in description.items() if value is not None})


def _member(table: _Table) -> MemberFile:
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


def _normalisation(table: _Table) -> Normalisation | None:
    found = table.find("normalisation", dict)
    if found is None:
        return None
    inner = _Table("normalisation.", found)
    mean, std = inner.several("mean", float, int), inner.several("std", float, int)
    inner.done()
    return Normalisation(tuple(map(float, mean)), tuple(map(float, std)))


def _ranking(table: _Table) -> Ranking | None:
    found = table.find("ranking", dict)
    if found is None:
        return None
    inner = _Table("ranking.", found)
    ranking = Ranking(
        data=inner.take("data", str),
        data_digest=inner.take("data_digest", str),
        holdout=inner.take("holdout", str),
        images=inner.take("images", int),
        draws=inner.take("draws", int),
        sigma=float(inner.take("sigma", float, int)),
        seed=inner.take("seed", int),
        accuracies=inner.numbers("accuracies") or {},
    )
    inner.done()
    return ranking


def _plain(value: Any) -> Any:
    """Dataclasses as tables, without what is None or empty; plain values before tables, as TOML wants it."""
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if not hasattr(value, "__dataclass_fields__"):
        return dict(value) if isinstance(value, Mapping) else value
    fields = {key: _plain(getattr(value, key)) for key in value.__dataclass_fields__}
    present = {key: entry for key, entry in fields.items() if entry is not None and entry != {}}
    return dict(sorted(present.items(), key=lambda item: _is_table(item[1])))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))
