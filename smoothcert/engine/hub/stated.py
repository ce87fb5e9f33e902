"""What the files of a repository say about a classifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from smoothcert.engine.normalisation import Normalisation


@dataclass(frozen=True)
class Stated:
    """The name of the network in its library, the arguments of its constructor, and how images are prepared.

    `classes` holds the names of the classes, or their number if they have no names. `normalisation` applies to images
    in [0, 1]; it is None if the repository does not say how images are normalised.
    """

    name: str
    config: dict[str, Any]
    classes: tuple[str, ...] | int
    input_shape: tuple[int, int, int]
    normalisation: Normalisation | None


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names of the classes; a name that occurs twice (ImageNet has two cranes) gets the number of its class."""
    counts = Counter(names)
    return tuple(name if counts[name] == 1 else f"{name} ({index})" for index, name in enumerate(names))
