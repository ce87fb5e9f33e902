"""Voting rules: how an ensemble derives one class from the logits of its members.

A rule maps logits [k, N, C] and weights [k] to scores [N, C]; the class of a row is that of its highest score. Ties
break to the lowest class index. A row in which any logit of any member is not finite has *no class*, which is written
as the index C, the last entry of the class counts.

Every operation here is element-wise in the rows or reduces the classes of one row. So the result of a row does not
depend on the other rows or on its place among them, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from smoothcert.engine.errors import VotingError

Rule = Callable[[Tensor, Tensor], Tensor]


def soft(outputs: Tensor, _weights: Tensor) -> Tensor:
    """The mean logits."""
    return _sum_members(outputs) / len(outputs)


def softmax(outputs: Tensor, _weights: Tensor) -> Tensor:
    """The mean of the members' softmax."""
    return _sum_members(outputs.softmax(-1)) / len(outputs)


def hard(outputs: Tensor, _weights: Tensor) -> Tensor:
    """The number of members that vote for each class."""
    classes = torch.arange(outputs.shape[-1], device=outputs.device)
    return _sum_members((lowest_argmax(outputs).unsqueeze(-1) == classes).to(outputs.dtype))


def weighted(outputs: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of the logits."""
    return _sum_members(outputs * weights.to(outputs).view(-1, 1, 1))


RULES: dict[str, Rule] = {"soft": soft, "softmax": softmax, "hard": hard, "weighted": weighted}
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
        raise VotingError(f"voting must be one of {', '.join(known)}; got {name!r}")


def vote(name: str, outputs: Tensor, weights: Tensor) -> Tensor:
    """The class [N] that the members' logits [k, N, C] give by this rule; C where there is none."""
    classes = lowest_argmax(rule(name)(outputs, weights))
    return torch.where(finite(outputs), classes, outputs.shape[-1])


def lowest_argmax(scores: Tensor) -> Tensor:
    """The lowest index of the highest score in the last dimension [..., C]; C where a score is NaN.

    `torch.argmax` does not specify which of several equal scores it returns.
    """
    classes = scores.shape[-1]
    index = torch.arange(classes, device=scores.device)
    return torch.where(scores == scores.amax(-1, keepdim=True), index, classes).amin(-1)


def finite(outputs: Tensor) -> Tensor:
    """Whether each row of [k, N, C] has finite logits only; bool [N]."""
    return outputs.isfinite().all(-1).all(0)


def _sum_members(outputs: Tensor) -> Tensor:
    # The members are added one after the other: a reduction may add in another order at another place in memory.
    total = outputs[0]
    for output in outputs[1:]:
        total = total + output
    return total
