"""How a procedure talks to the code that draws its samples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.errors import CountsError, DomainError
from smoothcert.procedures.drawn import Drawn, drawn
from smoothcert.verdict import Verdict

ClassCounts = npt.NDArray[np.integer[Any]]
Procedure = Generator[int, ClassCounts, Verdict]
"""Yields a number of samples, is sent their class counts, returns a verdict."""


def run(procedure: Procedure, sample: Callable[[int], ClassCounts]) -> Verdict:
    """Drive one procedure to its verdict; `sample(n)` draws n fresh samples and counts their classes."""
    if inspect.getgeneratorstate(procedure) != inspect.GEN_CREATED:
        raise DomainError("this procedure has run already; start a new one")
    try:
        n = next(procedure)
        while True:
            n = procedure.send(sample(n))
    except StopIteration as end:
        verdict: Verdict = end.value
        return verdict


def draw(n: int) -> Generator[int, ClassCounts, Drawn]:
    """Ask for n samples and check that the answer counts n of them: `counts = yield from draw(n)`."""
    counts = np.asarray((yield n))
    if counts.ndim != 1 or len(counts) < 2:
        raise CountsError(f"counts need an entry per class and one for no class, got shape {counts.shape}")
    listed = counts.tolist()
    if counts.dtype.kind not in "iu":
        raise CountsError(f"counts must be whole numbers, got {counts.dtype}: {listed}")
    if min(listed) < 0:
        raise CountsError(f"counts must not be negative, got {listed}")
    if (total := sum(listed)) != n:
        raise CountsError(f"asked for {n} samples, got counts that add up to {total}: {listed}")
    return drawn(counts)


def draw_more(n: int, earlier: Drawn) -> Generator[int, ClassCounts, Drawn]:
    """`draw`, where earlier counts say how many classes there are."""
    counts = yield from draw(n)
    if len(counts) != len(earlier):
        raise CountsError(f"counts had {len(earlier)} entries before, now {len(counts)}: {list(counts)}")
    return counts


def top_class(selection: Drawn) -> int | None:
    """The class seen most often (the lowest index of equals); None where no sample had a class."""
    *classes, _ = selection
    most = max(classes)
    return classes.index(most) if most else None


def pool(earlier: Drawn, counts: Drawn) -> Drawn:
    """The sum of both, class by class."""
    return tuple(a + b for a, b in zip(earlier, counts, strict=True))


def no_class(selection: Drawn) -> Verdict:
    """The abstention of a classifier whose every output was non-finite: there is no class to estimate."""
    return Verdict(None, 0.0, None, sum(selection), "no-class", (), selection)
