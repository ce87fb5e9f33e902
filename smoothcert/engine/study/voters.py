"""Voters: which members vote, by which rule, and how often each class wins among the samples of a tape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from smoothcert.engine.voting import finite, lowest_argmax, vote

ClassIndices = npt.NDArray[np.int64]
MOST_SUBSETS = 20
"""The most subsets of one size that are evaluated: all ten pairs of five members, and a fixed draw if there are
more."""
SMALL = 5
"""Every ensemble size up to this one is evaluated."""
LARGER = (10, 20, 50, 100)
"""The sizes above SMALL that are evaluated, besides that of the whole ensemble."""
MOST_METHODS = 5
"""The most training methods whose combinations are all evaluated."""


@dataclass(frozen=True)
class Voter:
    """Members of an ensemble by their places in ranked order, and the rule by which they choose a class."""

    members: tuple[int, ...]
    voting: str = "soft"
    consensus: int | None = None
    """The K of K-consensus: the first K members decide where they agree."""

    def classes(self, logits: Tensor, weights: Tensor) -> tuple[Tensor, int]:
        """The classes [n] that follow from all logits [k, n, C], and how often the first K members decided."""
        places = list(self.members)
        outputs = logits[places]
        voted = vote(self.voting, outputs, weights[places])
        if self.consensus is None:
            return voted, 0
        first = outputs[: self.consensus]
        sound, each = finite(first), lowest_argmax(first)
        agreed = (each == each[0]).all(0)
        # As in `engine.poll`: a sample for which one of the first K members has no class has none, and is decided.
        decided = agreed | ~sound
        by_first = torch.where(sound & agreed, each[0], logits.shape[-1])
        return torch.where(decided, by_first, voted), int(decided.sum())


@dataclass(frozen=True, eq=False)
class Ballot:
    """The votes of one voter on the samples of one image.

    `counts` [segments, C + 1] are class counts between the cuts; `agreed` is how often the first K members decided.
    """

    counts: ClassIndices
    agreed: int


def ballots(
    noisy: npt.NDArray[np.float32], voters: Iterable[Voter], weights: Sequence[float], cuts: Sequence[int]
) -> dict[Voter, Ballot]:
    """Count the votes of every voter on logits [n, k, C], between the cuts 0 = c_0 < c_1 < ... < n."""
    logits = torch.from_numpy(noisy.copy()).permute(1, 0, 2)
    classes, by_weight = logits.shape[-1], torch.tensor(list(weights))
    found = {}
    for voter in voters:
        voted, agreed = voter.classes(logits, by_weight)
        values = voted.numpy()
        counts = [np.bincount(values[start:stop], minlength=classes + 1) for start, stop in pairwise(cuts)]
        found[voter] = Ballot(np.array(counts), agreed)
    return found


def sizes(members: int) -> list[int]:
    """The ensemble sizes that are evaluated: every one up to SMALL, those of LARGER, and the whole ensemble."""
    return sorted({*range(1, min(members, SMALL) + 1), *(size for size in LARGER if size < members), members})


def subsets(members: int, size: int) -> list[Voter]:
    """All subsets of a size, or a fixed draw of MOST_SUBSETS of them; the best members are always among them."""
    if comb(members, size) <= MOST_SUBSETS:
        return [Voter(chosen) for chosen in combinations(range(members), size)]
    generator, chosen = np.random.default_rng(size), {tuple(range(size))}
    while len(chosen) < MOST_SUBSETS:
        chosen.add(tuple(sorted(generator.choice(members, size, replace=False).tolist())))
    return [Voter(each) for each in sorted(chosen)]


def best(size: int) -> Voter:
    """The best members by rank, as the service runs them."""
    return Voter(tuple(range(size)))


def mixtures(methods: Sequence[str] | None) -> Mapping[str, Voter]:
    """The members of every combination of training methods, by its name; nothing unless the methods differ."""
    known = list(dict.fromkeys(methods or ()))
    if not methods or not 1 < len(known) <= MOST_METHODS:
        return {}
    return {
        ", ".join(chosen): Voter(tuple(place for place, method in enumerate(methods) if method in chosen))
        for size in range(1, len(known) + 1)
        for chosen in combinations(known, size)
    }
