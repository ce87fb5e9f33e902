"""The vote of an ensemble, taken in stages: a row whose class is certain leaves, and the others ask further members.

After some numbers of members, the *stages*, a row may be decided:

- where a member gave a logit that is not finite, the row has no class;
- after K members that agree, K-consensus decides;
- where the members to come cannot change the full vote (`engine.exits`), it has the class of the leader;
- after all members, the full vote decides.

The third changes no class. It applies only where the members to come are known to give finite logits, because otherwise
they could still make a row "no class": because the ensemble limits its logits, or by `engine.magnitude`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from smoothcert.engine.exits import Limits, bounds, exits, leaders
from smoothcert.engine.voting import finite, lowest_argmax, rule, vote

UNDECIDED = -1
"""Stands for the class of a row that further members have to decide."""


@dataclass(frozen=True)
class Polled:
    """The state of a vote on N images after m members.

    `classes` is int64 [N], UNDECIDED where others have to be asked; `outputs` are the logits, float32 [m, N, C].
    """

    classes: Tensor
    outputs: Tensor


def joined(polls: Sequence[Polled]) -> Polled:
    """The vote on the images of several batches, all at the same stage."""
    if len(polls) == 1:
        return polls[0]
    return Polled(torch.cat([each.classes for each in polls]), torch.cat([each.outputs for each in polls], dim=1))


@dataclass(frozen=True, eq=False)
class Poll:
    """The rules by which k members arrive at a class."""

    voting: str
    consensus: int | None
    weights: Tensor
    """[k], one for each member."""
    limits: Limits | None = None
    sure: Callable[[int], bool] = bool
    """Whether the member at a place, from 0 on, is known to give finite logits for images within reach."""

    @property
    def members(self) -> int:
        return len(self.weights)

    @cached_property
    def stages(self) -> tuple[int, ...]:
        """The numbers of members after which rows may be decided, in ascending order; the last is k."""
        return tuple(sorted({*self._exits, self.consensus or self.members, self.members}))

    @property
    def cautious(self) -> bool:
        """Whether an early exit depends on the images, because a network may answer anything beyond its reach."""
        return bool(self._exits) and self.limits is None

    def decide(self, outputs: Tensor, within_reach: Tensor | None = None) -> Tensor:
        """The class of each row [N] given the logits [m, N, C] of the first m members; -1 where it is undecided.

        `within_reach` [N] says which images the members to come are known to answer with finite logits; None for all.
        """
        polled, no_class = len(outputs), outputs.shape[-1]
        if polled == self.members and self.consensus is None:
            return vote(self.voting, outputs, self.weights)
        if polled == self.members:
            classes = vote(self.voting, outputs, self.weights)
        else:
            classes = self._final(outputs, within_reach)
        if self.consensus is not None:
            classes = self._with_consensus(classes, lowest_argmax(outputs[: self.consensus]), polled=polled)
        return torch.where(finite(outputs), classes, no_class)

    def _final(self, outputs: Tensor, within_reach: Tensor | None) -> Tensor:
        """The leader where no member to come can change the full vote, and -1 elsewhere."""
        if len(outputs) not in self._exits or self._bounds is None:
            return outputs.new_full(outputs.shape[1:2], UNDECIDED, dtype=torch.int64)
        leader, final = leaders(rule(self.voting), outputs, self.weights, self._bounds)
        return torch.where(final if within_reach is None else final & within_reach, leader, UNDECIDED)

    def _with_consensus(self, classes: Tensor, each: Tensor, *, polled: int) -> Tensor:
        """The classes by K-consensus, given those of the full vote and the class of each of the first members."""
        agreed = (each == each[0]).all(0)
        if self.consensus is not None and polled >= self.consensus:
            return torch.where(agreed, each[0], classes)
        # Before K members were asked, those so far may still become a consensus, which would decide for their class.
        return torch.where(agreed & (each[0] != classes), UNDECIDED, classes)

    @cached_property
    def _exits(self) -> tuple[int, ...]:
        """The numbers of members, below k, after which the full vote may be certain."""
        if self._bounds is None:
            return ()
        possible = exits(self._bounds)
        if self.limits is None:
            later = range(min(possible, default=self.members), self.members)  # those that are not always asked
            last_unsure = max((place for place in later if not self.sure(place)), default=-1)
            possible = tuple(m for m in possible if m > last_unsure)
        return possible

    @cached_property
    def _bounds(self) -> Tensor | None:
        return bounds(rule(self.voting), self.weights, self.limits)
