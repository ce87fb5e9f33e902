"""Voting rules: how an ensemble derives one class from the logits of its members.

A rule says what each member adds to the score of each class, given its logits. The class of a row is that of its
highest score. Ties break to the lowest class index. A row in which any logit of any member is not finite has
*no class*, which is written as the index C, the last entry of the class counts.

Every operation here is element-wise in the rows or reduces the classes of one row. So the result of a row does not
depend on the other rows or on its place among them, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothcert.engine.errors import VotingError
from smoothcert.errors import suggestion


@dataclass(frozen=True)
class Rule:
    """How the logits of the members become the scores of the classes: a sum over the members, or their mean."""

    terms: Callable[[Tensor, Tensor], Tensor]
    """What each member adds to the scores [m, N, C], given logits [m, N, C] and weights [m]."""
    mean: bool
    span: tuple[float, float] | None = None
    """The least and the most that a member can add to a score, whatever its finite logits are. None where a term has no
    bound of its own; it then grows with the logit of the same class and depends on no other."""

    def __call__(self, outputs: Tensor, weights: Tensor) -> Tensor:
        """The scores [N, C] for logits [k, N, C] and weights [k]."""
        return self.scores(self.sum(outputs, weights), members=len(outputs))

    def sum(self, outputs: Tensor, weights: Tensor) -> Tensor:
        """What the first members add up to [N, C]."""
        # They are added one after the other: a reduction may add in another order at another place in memory.
        terms = self.terms(outputs, weights)
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    def scores(self, total: Tensor, *, members: int) -> Tensor:
        """The scores, given what all members add up to."""
        return total / members if self.mean else total


def soft(outputs: Tensor, _weights: Tensor) -> Tensor:
    """The logits as they are."""
    return outputs


def softmax(outputs: Tensor, _weights: Tensor) -> Tensor:
    """The softmax of each member."""
    return outputs.softmax(-1)


def hard(outputs: Tensor, _weights: Tensor) -> Tensor:
    """One for the class with the highest logit, and zero for the others."""
    classes = torch.arange(outputs.shape[-1], device=outputs.device)
    return (lowest_argmax(outputs).unsqueeze(-1) == classes).to(outputs.dtype)


def weighted(outputs: Tensor, weights: Tensor) -> Tensor:
    """The logits times the weight of the member."""
    return outputs * weights.to(outputs).view(-1, 1, 1)


ROUNDING = 2.0**-16
"""More than rounding can move what softmax votes add up to: 2^-24 for each operation, some ten for each member."""

RULES: dict[str, Rule] = {
    "soft": Rule(soft, mean=True),
    "softmax": Rule(softmax, mean=True, span=(-ROUNDING, 1 + ROUNDING)),
    "hard": Rule(hard, mean=False, span=(0.0, 1.0)),
    "weighted": Rule(weighted, mean=False),
}
"""All rules by name. A further rule is a function above and its entry here."""


WEIGHTED = frozenset({"weighted"})
"""The rules that need a weight for each member."""


def rule(name: str) -> Rule:
    """The rule of this name; VotingError where there is none."""
    _require_one_of(RULES, name)
    return RULES[name]


def require_unweighted(name: str) -> None:
    """Raise VotingError unless this is the name of a rule for members without weights."""
    _require_one_of([known for known in RULES if known not in WEIGHTED], name)


def _require_one_of(known: Collection[str], name: str) -> None:
    if not isinstance(name, str) or name not in known:
        near = suggestion(name, known) if isinstance(name, str) else ""
        raise VotingError(f"voting must be one of {', '.join(known)}; got {name!r}{near}")


def vote(name: str, outputs: Tensor, weights: Tensor) -> Tensor:
    """The class [N] that the members' logits [k, N, C] give by this rule; C where there is none."""
    classes = lowest_argmax(rule(name)(outputs, weights))
    return torch.where(finite(outputs), classes, outputs.shape[-1])


def lowest_argmax(scores: Tensor) -> Tensor:
    """The lowest index of the highest score in the last dimension [..., C]; C where a score is NaN.

    `torch.argmax` does not specify which of several equal scores it returns.
    """
    classes = scores.shape[-1]
    index = torch.arange(classes, device=scores.device, dtype=torch.int32)  # a CPU reduces int64 several times slower
    return torch.where(scores == scores.amax(-1, keepdim=True), index, classes).amin(-1).long()


def finite(outputs: Tensor) -> Tensor:
    """Whether each row of [k, N, C] has finite logits only; bool [N]."""
    return outputs.abs().amax((0, -1)) < torch.inf  # amax hands NaN on, and NaN is not below
