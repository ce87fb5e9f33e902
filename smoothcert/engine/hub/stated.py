"""What the files of a repository say of a classifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from smoothcert.engine.normalisation import Normalisation


@dataclass(frozen=True)
class Stated:
    """The name of the network in its library, what its constructor needs beside, and how images are to be prepared.

    `classes` are names, or their number where they have none. `normalisation` is None where the repository does not
    say how images are normalised, and of images in [0, 1] otherwise.
    """

    name: str
    config: dict[str, Any]
    classes: tuple[str, ...] | int
    input_shape: tuple[int, int, int]
    normalisation: Normalisation | None


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names of classes; those that occur twice (ImageNet has two cranes) get their number."""
    counts = Counter(names)
    return tuple(name if counts[name] == 1 else f"{name} ({index})" for index, name in enumerate(names))
