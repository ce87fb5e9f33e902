"""The exact early exit of a vote: when the members that were not asked cannot change the class any more.

Let total be what the asked members add up to for each class, in float32 and in ranked order. These are the intermediate
results of the full vote itself. A member that is still to come adds at least `least` and at most `most` to each score.

Rounding to the nearest float is monotone: x <= y implies fl(x + t) <= fl(y + t), fl(x / k) <= fl(y / k), and
fl(w x) <= fl(w y) for a weight w >= 0. The operations of the full vote are exactly these. So it gives the leader at
least the score that results from the same operations with `least` for each member to come, and every rival at most the
one with `most`. If the leader wins in that worst case, it wins in every case. Ties are broken as in the vote, to the
lowest class. Sums therefore need no margin. The terms of softmax have one (`voting.ROUNDING`), because they come from
an exponential and a division whose last bits no standard specifies: a term may exceed 1 by some 2^-22, and that of a
row may differ by as much between two calls. Each member to come widens the gap by 2^-16 on both sides, which covers
this for all members together, up to MOST_MEMBERS of them; in a larger ensemble every member is asked.

What a member adds has such bounds only if its logits are finite; whether they are is the concern of the caller.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smoothcert.engine.errors import VotingError
from smoothcert.engine.voting import Rule, lowest_argmax

MOST_MEMBERS = 60
"""The number of members up to which the margin of softmax covers what rounding can change."""
Limits = tuple[float, float]
"""The range to which an ensemble limits the logits of its members."""


def check_limits(limits: Limits | None) -> None:
    """Raise VotingError unless the limits of the logits are two numbers in ascending order, up to a million."""
    if limits is not None and not (len(limits) == 2 and -1e6 <= limits[0] < limits[1] <= 1e6):
        raise VotingError(
            f"limits of the logits must be [low, high] with -1e6 <= low < high <= 1e6; got {list(limits)}"
        )


def bounds(rule: Rule, weights: Tensor, limits: Limits | None) -> Tensor | None:
    """The least and the most that each member adds to a score [2, k]; None where that is not known."""
    span = rule.span or limits
    if span is None or len(weights) > MOST_MEMBERS:
        return None
    ends = torch.tensor(span, dtype=torch.float32).to(weights.device)
    if rule.span is not None:
        return ends.view(2, 1).expand(2, len(weights))
    return torch.stack([rule.terms(end.expand(len(weights), 1, 1), weights).flatten() for end in ends])


def exits(least_and_most: Tensor) -> tuple[int, ...]:
    """The numbers of asked members, below k, after which a row can be decided: they outweigh those to come."""
    spans = [most - least for least, most in least_and_most.double().T.tolist()]
    return tuple(m for m in range(1, len(spans)) if sum(spans[:m]) > sum(spans[m:]))


def leaders(rule: Rule, outputs: Tensor, weights: Tensor, least_and_most: Tensor) -> tuple[Tensor, Tensor]:
    """The class in the lead after the first m members gave finite logits [m, N, C], and whether it is final: both [N].

    `weights` [k] and `least_and_most` [2, k] are those of all k members.
    """
    polled, members = len(outputs), len(weights)
    # 1. What the members so far add up to, and the class in the lead.
    total = rule.sum(outputs, weights[:polled])
    leader = lowest_argmax(total)
    # 2. The worst case for the leader: every member to come adds the least to it, and the most to each rival.
    worst_own = worst_rival = total
    for least, most in least_and_most[:, polled:].T:
        worst_own, worst_rival = worst_own + least, worst_rival + most
    # 3. The leader is final if it still wins then, by the scores and the tie-break of the full vote.
    is_leader = torch.arange(total.shape[-1], device=total.device) == leader.unsqueeze(-1)
    worst = rule.scores(torch.where(is_leader, worst_own, worst_rival), members=members)
    return leader, lowest_argmax(worst) == leader
