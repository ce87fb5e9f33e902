"""Hierarchy: where a class cannot be proved, a declared superclass may be.

A level groups classes into superclasses; classes that it does not name stay as they are. The classes themselves are the
finest level, so k declared levels make L = k + 1. Each level turns the base classifier f into a coarser one, which
answers with the superclass of f's class and has a smoothed classifier of its own. A certificate of a superclass is
about that smoothed classifier: within the radius, more than half of the noise falls into the superclass. It does not
say which class of f leads there.

1. The n0 samples of the selection choose one set S_l of classes on each level l: the one with the most samples.
2. n fresh samples bound P(f in S_l) from below, on each level with probability at least 1 - alpha / L.
3. The verdict is the finest level whose bound proves `least_radius`, and any radius beyond 0.

All L bounds hold together with probability at least 1 - alpha (union), so it does not matter that the same samples
choose the level in step 3. The sets must be chosen by other samples: otherwise the luckiest of many sets would be
chosen.

Superclasses are numbered after the classes of every ensemble, from SUPERCLASSES on, level by level. So the
number of a superclass cannot be mistaken for that of a class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator

from smoothcert.boundaries import Boundaries
from smoothcert.bounds import lower_bound
from smoothcert.counts import MOST_CLASSES
from smoothcert.errors import DomainError, require_count, require_level, shown
from smoothcert.frozen import Frozen
from smoothcert.noise import Noise
from smoothcert.procedures.drawn import Drawn
from smoothcert.procedures.fixed import N
from smoothcert.procedures.parameters import N0, Parameters, WholeNumber
from smoothcert.procedures.protocol import Procedure, draw, draw_more, no_class
from smoothcert.procedures.thresholds import least_certifying, proves
from smoothcert.verdict import Stage, Verdict

SUPERCLASSES = MOST_CLASSES
"""The number of the first superclass."""
MOST_LEVELS, MOST_SUPERCLASSES, MOST_NAMED = 16, 2_000, 20_000
"""The most levels, superclasses of a level, and classes that all levels name: every certificate carries them."""
MOST_SHOWN = 10
"""The classes of a superclass that a remark lists."""


class Superclass(Frozen):
    """Classes with a name of their own."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    classes: Annotated[
        tuple[Annotated[int, Field(strict=True, ge=0, lt=MOST_CLASSES)], ...],
        Field(min_length=1, max_length=MOST_CLASSES),
    ]
    """The numbers of the classes, in increasing order."""

    @field_validator("classes")
    @classmethod
    def _ordered(cls, classes: tuple[int, ...]) -> tuple[int, ...]:
        if list(classes) != sorted(set(classes)):
            raise DomainError(f"must be in increasing order and each once, got {shown(list(classes))}")
        return classes


Level = Annotated[tuple[Superclass, ...], Field(min_length=1, max_length=MOST_SUPERCLASSES)]
Levels = Annotated[tuple[Level, ...], Field(min_length=1, max_length=MOST_LEVELS)]
"""From fine to coarse; the superclasses of a level have no class in common."""


def certify_hierarchy(
    noise: Noise,
    levels: Sequence[Sequence[Superclass]],
    *,
    n0: int = N0,
    n: int = N,
    least_radius: float = 0.0,
    alpha: float = 0.001,
) -> Procedure:
    """With probability at least 1 - alpha, the verdict abstains or what it names is robust within its radius."""
    require_count("n0", n0)
    require_count("n", n)
    require_level("alpha", alpha)
    return _certify_hierarchy(noise, levels, n0, n, least_radius, alpha / (1 + len(levels)))


def _certify_hierarchy(
    noise: Noise, levels: Sequence[Sequence[Superclass]], n0: int, n: int, least: float, share: float
) -> Procedure:
    selection = yield from draw(n0)
    if not sum(selection[:-1]):
        return no_class(selection)
    chosen = [*_chosen(levels, selection)]
    counts = yield from draw_more(n, selection)
    stage = Stage(counts, n, 0, "exhausted")
    for index, classes in chosen:
        count = _count(counts, classes)
        p_lower = lower_bound(count, n, share)
        if proves(noise, p_lower, least):
            stage = Stage(counts, n, count, "certified", p_lower)
            return Verdict(index, noise.radius(p_lower), p_lower, n0 + n, "certified", (stage,), selection)
        stage = Stage(counts, n, count, "exhausted", p_lower)
    return Verdict(None, 0.0, stage.p_lower, n0 + n, "exhausted", (stage,), selection)


def _chosen(levels: Sequence[Sequence[Superclass]], selection: Drawn) -> Iterator[tuple[int, Sequence[int]]]:
    """The number and the classes of the set with the most samples on each level, from fine to coarse.

    Of equals a superclass comes before a class, and a lower number before a higher one.
    """
    alone = range(len(selection) - 1)
    yield max(((c, (c,)) for c in alone), key=lambda each: selection[each[0]])
    first = SUPERCLASSES
    for level in levels:
        joined = {c for superclass in level for c in superclass.classes}
        sets = [(first + place, superclass.classes) for place, superclass in enumerate(level)]
        sets += [(c, (c,)) for c in alone if c not in joined]
        yield max(sets, key=lambda each: _count(selection, each[1]))
        first += len(level)


def _count(counts: Drawn, classes: Sequence[int]) -> int:
    """The samples that fell on these classes; those that no sample fell on may be missing from the counts."""
    return sum(counts[c] for c in classes if c < len(counts) - 1)


class Hierarchy(Parameters):
    """`certify_hierarchy` by name, with its parameters."""

    budget: ClassVar[str] = "n"
    numbered: ClassVar[bool] = True
    hierarchical: ClassVar[bool] = True
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ({"levels": "declared"},)
    summary: ClassVar[str] = (
        "Proves the largest radius for a class, or for a superclass where the class cannot be proved."
    )

    name: Literal["hierarchy"] = "hierarchy"
    n: WholeNumber = N
    """The samples that bound the probabilities."""
    levels: Literal["declared"] | Levels
    """'declared' for the superclasses of the ensemble, or a list of levels, from the finest to the coarsest."""
    least_radius: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)] = 0.0
    """A level that proves less is passed over for a coarser one."""

    @field_validator("levels", mode="before")
    @classmethod
    def _named(cls, levels: object) -> object:
        """Refuse what is neither in one sentence; pydantic has one for each alternative."""
        if not isinstance(levels, list | tuple) and levels != "declared":
            raise DomainError(f"must be 'declared' or a list of levels, got {shown(levels)}")
        return levels

    @field_validator("levels")
    @classmethod
    def _apart(cls, levels: str | Sequence[Sequence[Superclass]]) -> str | Sequence[Sequence[Superclass]]:
        chosen = () if isinstance(levels, str) else levels
        if (named := sum(len(each.classes) for level in chosen for each in level)) > MOST_NAMED:
            raise DomainError(f"must name at most {MOST_NAMED:,} classes in all, got {named:,}")
        for level in chosen:
            _require_apart("name", [each.name for each in level])
            _require_apart("class", [c for each in level for c in each.classes])
        return levels

    @property
    def label(self) -> str:
        return "hierarchy"

    @property
    def targeted(self) -> bool:
        return False

    @property
    def abandoning(self) -> None:
        return None

    @property
    def known(self) -> Sequence[Sequence[Superclass]]:
        """The levels; DomainError where they are left to an ensemble."""
        if isinstance(self.levels, str):
            raise DomainError("levels must be given: there is no ensemble here that declares superclasses")
        return self.levels

    @property
    def superclasses(self) -> tuple[Superclass, ...]:
        """Those of all levels, in the order of their numbers."""
        return () if isinstance(self.levels, str) else tuple(each for level in self.levels for each in level)

    def superclass(self, index: int | None) -> Superclass | None:
        """The superclass of this number; None for a class."""
        place = -1 if index is None else index - SUPERCLASSES
        return self.superclasses[place] if 0 <= place < len(self.superclasses) else None

    def class_name(self, index: int) -> str | None:
        found = self.superclass(index)
        return None if found is None else found.name

    def remark(self, index: int | None) -> str | None:
        found = self.superclass(index)
        if found is None:
            return None
        classes = ", ".join(map(str, found.classes[:MOST_SHOWN])) + (", ..." if len(found.classes) > MOST_SHOWN else "")
        return (
            f"What was certified is the superclass {found.name!r}, the classes {classes} together: within the radius, "
            f"more than half of the noise falls into it. Which of its classes leads there is not said."
        )

    def fitted(self, classes: Sequence[str], superclasses: Sequence[Sequence[Superclass]]) -> Self:
        """With the levels of the ensemble where they are left to it."""
        levels = superclasses if isinstance(self.levels, str) else self.levels
        if not levels:
            raise DomainError(
                "levels is 'declared', and the ensemble declares no superclasses: give them in the request"
            )
        for each in (superclass for level in levels for superclass in level):
            if each.classes[-1] >= len(classes):
                raise DomainError(
                    f"levels: the superclass {each.name!r} has the class {each.classes[-1]}, and the ensemble has the "
                    f"classes 0 to {len(classes) - 1}"
                )
            if each.name in classes and each.classes != (classes.index(each.name),):
                raise DomainError(
                    f"levels: the superclass {each.name!r} has the name of a class, and is not that class alone: a "
                    "certificate could be mistaken for one of the class"
                )
        return self.model_copy(update={"levels": tuple(map(tuple, levels))})

    def start(self, noise: Noise, radius: float | None, *, alpha: float, beta: float) -> Procedure:
        """The procedure, ready to run; it uses neither a target radius nor beta."""
        return certify_hierarchy(noise, self.known, n0=self.n0, n=self.n, least_radius=self.least_radius, alpha=alpha)

    def boundaries(self, noise: Noise, radius: float, *, alpha: float, beta: float) -> Boundaries:
        """The count of a set from which all n samples prove this radius; it never abandons."""
        least = max(radius, self.least_radius)
        certify_at = least_certifying(noise, least, self.n, self.last_alpha(alpha))
        return Boundaries(np.array([self.n]), np.array([certify_at]), np.array([-1]))

    @property
    def most_samples(self) -> int:
        return self.n

    @property
    def look_count(self) -> int:
        return 1

    def last_alpha(self, alpha: float) -> float:
        """The share of one level."""
        return alpha / (1 + (1 if isinstance(self.levels, str) else len(self.levels)))

    def interval_alpha(self, alpha: float) -> float:
        return self.last_alpha(alpha)


def _require_apart(what: str, values: Sequence[object]) -> None:
    twice, times = Counter(values).most_common(1)[0]
    if times > 1:
        raise DomainError(f"a level has the {what} {twice!r} twice: its superclasses must have nothing in common")
