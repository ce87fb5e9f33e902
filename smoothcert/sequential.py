"""The boundaries of an exact group-sequential binomial test of p_A >= p0.

The test compares the running count S_j with two integer boundaries at looks j that are fixed in advance. It certifies
if S_j >= U_j and abandons if S_j <= L_j. The certify boundary U spends alpha under p = p0 as if there were no
abandoning. So P(ever certify | p_A <= p0) <= alpha for every reason to stop early: the abandon rule, a cancellation or
a crash. The abandon boundary L comes in two flavours:

strict             P(abandon | p_A = p0) <= beta, which is what the paper's CertifyAdp promises.
lost-certificate   For every p_A >= p0, P(abandon, although going on would have certified) <= beta. It abandons sooner,
                   because a path that would not have certified anyway loses nothing.

`smoothcert.optimal` abandons by a price instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from smoothcert import cache
from smoothcert.binomial import NOTHING_DRAWN, Counts, binomial, counts_kept
from smoothcert.boundaries import Boundaries
from smoothcert.errors import DomainError, require_count, require_level, require_number, require_probability

Abandon = Literal["strict", "lost-certificate"]

FIRST_LOOK = 32
"""The samples at the first look: few, so that hopeless images are abandoned early. Other looks are multiples of it."""
GROWTH = 0.1
"""The relative growth from look to look: closer looks would cost alpha, fewer would stop later than necessary."""
SLACK = 1e-9
"""The relative share of alpha and beta that stays unspent: far above any rounding of the sums."""
END_SHARE = 0.5
"""The share of alpha that is left to the last look."""
RESERVE = 0.02
"""The share of beta that lost-certificate leaves unspent: between two points of its grid more is lost than at both."""
GRID_REACH = 12
"""How far the dense part of the grid of lost-certificate reaches above p0, in standard deviations of the last count:
the loss is largest near 4 at alpha = .001, and near 10 at the least alpha."""
MOST_SAMPLES = 10_000_000
"""The largest `max_samples`: building its boundaries takes half a minute."""
SCHEME = 3
"""A part of the key of stored boundaries: raise it with every change that may move an abandon boundary."""


@lru_cache(maxsize=512, typed=True)
def boundaries(p0: float, *, alpha: float, beta: float, max_samples: int, abandon: Abandon) -> Boundaries:
    """The boundaries of the test of p_A >= p0 for 0 < p0 < 1, with at most `max_samples` samples.

    They are integers and a pure function of the arguments. The abandon boundary is kept on disk, too, since it takes
    most of the time. The certify boundary is not: soundness rests on it alone, and must not rest on a file.
    """
    require_testable(p0, alpha=alpha, beta=beta)
    require_budget(max_samples)
    if abandon not in get_args(Abandon):
        raise DomainError(f"abandon must be one of {', '.join(get_args(Abandon))}, got {abandon!r}")
    looks = looks_up_to(max_samples)
    certify = certify_boundary(rounded_up(p0), looks, alpha * (1 - SLACK)).counts
    key = f"abandon/{SCHEME}/{p0!r}/{alpha!r}/{beta!r}/{max_samples}/{abandon}"
    give_up = _restored(cache.load(key), certify)
    if give_up is None:
        give_up = abandon_boundary(rounded_up(p0), looks, certify, beta, abandon)
        cache.save(key, give_up)
    return Boundaries(np.array(looks), np.array(certify), np.array(give_up))


def _restored(stored: Any, certify: list[int]) -> list[int] | None:
    """An abandon boundary from the store; None if it does not have the shape that it must have."""
    if not isinstance(stored, list) or len(stored) != len(certify):
        return None
    fits = all(type(low) is int and -1 <= low < u for low, u in zip(stored, certify, strict=True))
    return stored if fits else None


def require_budget(max_samples: int) -> None:
    """Raise DomainError unless boundaries for this many samples can be built in bearable time."""
    require_count("max_samples", max_samples)
    if max_samples > MOST_SAMPLES:
        raise DomainError(f"max_samples must be at most {MOST_SAMPLES}, got {max_samples!r}")


def rounded_up(p0: float) -> float:
    """The next larger double: p0 may have been rounded down, and a larger one errs on the safe side."""
    return math.nextafter(p0, 1.0)


def require_testable(p0: float, *, alpha: float, beta: float) -> None:
    """Raise DomainError unless p0, alpha and beta lie in (0, 1), and no closer to its ends than doubles can resolve."""
    require_level("alpha", alpha)
    require_level("beta", beta)
    require_number("p0", p0)
    if 1.0 - 2.0**-52 <= p0 <= 1.0:
        raise DomainError(f"p0 must be below 1 - 2**-52, since no number of samples could show more; got {p0!r}")
    require_probability("p0", p0)


def abandon_boundary(p0: float, looks: list[int], certify: list[int], beta: float, abandon: Abandon) -> list[int]:
    """L_j of the given flavour, for this certify boundary."""
    if abandon == "strict":
        return strict_boundary(p0, looks, certify, beta * (1 - SLACK))
    return lost_certificate_boundary(p0, looks, certify, (1 - RESERVE) * beta * (1 - SLACK))


def looks_up_to(max_samples: int) -> list[int]:
    """The looks: they grow by a tenth, rounded up to multiples of 32, and end with `max_samples`."""
    looks: list[int] = []
    look = FIRST_LOOK
    while look < max_samples:
        looks.append(look)
        grown = math.ceil((1 + GROWTH) * look)
        look = max(look + FIRST_LOOK, FIRST_LOOK * math.ceil(grown / FIRST_LOOK))
    if looks and max_samples - looks[-1] < 0.3 * GROWTH * looks[-1]:
        looks.pop()  # a look this close to the last one would only cost alpha
    return [*looks, max_samples]


def steps_of(looks: Sequence[int]) -> list[int]:
    """The number of samples drawn for each look, since the one before."""
    return [later - earlier for earlier, later in zip([0, *looks], looks, strict=False)]


@dataclass(frozen=True)
class CertifyBoundary:
    """The counts U_j from which each look certifies."""

    counts: list[int]
    spent: float
    """P(S_j >= U_j for some j | p0), exact."""


def certify_boundary(p0: float, looks: list[int], alpha: float, *, end_share: float = END_SHARE) -> CertifyBoundary:
    """U_j: the least counts that keep P(S_i >= U_i for some i <= j | p0) within what may be spent by look j."""
    # Forward over the looks. `alive` is the distribution of the count over the paths that have not certified, and
    # `spent` is the probability of those that have.
    alive, spent = NOTHING_DRAWN, 0.0
    boundary = []
    for look, step, share in zip(looks, steps_of(looks), certify_shares(p0, looks, alpha, end_share), strict=True):
        at_look = alive.plus(step, p0)
        u = at_look.least_upper(alpha * share - spent)  # what earlier looks could not spend is available here
        spent += at_look.upper_tail(u)
        alive = at_look.below(u).without_low_dust()
        boundary.append(u)
        _require_whole(alive.total + spent, look)
    return CertifyBoundary(boundary, spent)


def certify_shares(p0: float, looks: list[int], alpha: float, end_share: float) -> list[float]:
    """The share of alpha that may be spent by each look: `end_share` at the end, the rest evenly in log n."""
    fewest = max(8.0, math.log(alpha) / math.log(p0))  # fewer samples can never certify
    most = looks[-1]

    def spread(look: int) -> float:
        if most <= fewest:
            return 1.0
        return min(1.0, max(0.0, math.log(2 * look / fewest) / math.log(2 * most / fewest)))

    return [*((1 - end_share) * spread(look) for look in looks[:-1]), 1.0]


def strict_boundary(p0: float, looks: list[int], certify: list[int], beta: float) -> list[int]:
    """L_j: the greatest counts that keep P(S_i <= L_i for some i <= j, before certifying | p0) within beta's share.

    The share grows evenly in log n. The last look has no abandon boundary, since the test ends there anyway.
    """
    # Forward over the looks, as for the certify boundary; `alive` are the paths that have neither certified nor
    # abandoned, and `spent` is the probability of those that have abandoned.
    alive, spent = NOTHING_DRAWN, 0.0
    boundary = []
    for look, step, u in zip(looks[:-1], steps_of(looks), certify, strict=False):
        at_look = alive.plus(step, p0).below(u)  # paths from u on certify here
        share = math.log(2 * look / looks[0]) / math.log(2 * looks[-1] / looks[0])
        low = min(at_look.greatest_lower(beta * share - spent), u - 1)
        spent += at_look.lower_tail(low)
        alive = at_look.above(low)
        boundary.append(max(low, -1))
    return [*boundary, -1]


def lost_certificate_boundary(p0: float, looks: list[int], certify: list[int], beta: float) -> list[int]:
    """L_j: the greatest counts that keep the certificates lost by abandoning within beta, at every p of a grid."""
    steps = steps_of(looks)
    grid = p_grid(p0, looks[-1])
    # 1. Backward, for each p: the chance that a path at look j would still certify.
    chances = [certify_chances(p, looks, certify) for p in grid]
    # 2. Forward, for all p of the grid side by side: the paths still alive, and the certificates lost so far.
    alive, lost = [NOTHING_DRAWN] * len(grid), [0.0] * len(grid)
    boundary = []
    for j, (look, step, u) in enumerate(zip(looks[:-1], steps, certify, strict=False)):
        # The budget grows with the square of x, the position of the look in log n: most of it is left to late looks.
        x = math.log(look / looks[0]) / math.log(looks[-1] / looks[0])
        budget = beta * max(0.02, x * x)
        # Draw, and leave out the paths that certify here.
        at_look = [paths.plus(step, p).below(u) for paths, p in zip(alive, grid, strict=True)]
        # Weigh each path with its chance: the lower tail of `loss` at L is what abandoning up to L loses.
        loss = [_weigh(paths, chance[j]) for paths, chance in zip(at_look, chances, strict=True)]
        # One boundary serves every p, so the p that allows least decides.
        low = min([u - 1, *(a.greatest_lower(budget - b) for a, b in zip(loss, lost, strict=True) if len(a.mass))])
        lost = [b + a.lower_tail(low) for a, b in zip(loss, lost, strict=True)]
        alive = [paths.above(low).without_dust() for paths in at_look]
        boundary.append(max(low, -1))
    return [*boundary, -1]


def p_grid(p0: float, max_samples: int) -> list[float]:
    """The p at which the loss is kept within beta: dense near p0, where the test is in doubt, and sparse up to 1.

    The loss has one smooth maximum near p0, which the dense part must contain. It is the largest at p = 1 where beta is
    large and a path without any failure is abandoned.
    """
    steps = range(2 * GRID_REACH + 1)
    if p0 >= 0.5:
        near = [p0 + t / 2 * math.sqrt(p0 * (1 - p0) / max_samples) for t in steps]
    else:  # the standard deviation grows with p: take even steps on the scale on which it does not
        root = math.asin(math.sqrt(p0))
        near = [math.sin(min(root + t / 4 / math.sqrt(max_samples), math.pi / 2)) ** 2 for t in steps]
    far = [p0 + (1 - p0) * share for share in (0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.45, 0.6, 0.8, 0.95)]
    return sorted({*far, *(min(p, far[-1]) for p in near if p < p0 + 0.98 * (1 - p0)), 1.0})


def certify_chances(p: float, looks: list[int], certify: list[int]) -> list[Counts]:
    """H_j(k) = P(certify after look j | S_j = k) without abandoning, for each look j and the counts k that can occur.

    Each H_j is stored as `Counts` for k = start, ..., U_j - 1, although it is not a distribution.
    """
    # Backward from the last look, after which nothing certifies. With D the successes between the looks j and j + 1,
    #     H_j(k) = P(k + D >= U_{j+1}) + sum over d with k + d < U_{j+1} of P(D = d) H_{j+1}(k + d).
    steps = steps_of(looks)
    later = Counts(certify[-1], np.empty(0))
    chances = [later]
    for j in range(len(looks) - 2, -1, -1):
        first = min(counts_kept(looks[j], p)[0], certify[j])
        step = binomial(steps[j + 1], p)
        # 1. Certify at the next look: the upper tail of D at U_{j+1} - k. tails[i] = P(D >= step.start + i), and 0 for
        #    more than the largest D. The index is clipped at both ends, where the tail is 1 or 0.
        tails = np.concatenate([np.cumsum(step.mass[::-1])[::-1], [0.0]])
        needed = certify[j + 1] - np.arange(first, certify[j])
        chance = tails[np.clip(needed - step.start, 0, len(step.mass))]
        # 2. Go on at the next look and certify later: the correlation of H_{j+1} with the mass of D, which is the
        #    convolution with the reversed mass. Its entry i belongs to k = through_first + i, where through_first is
        #    the least count of H_{j+1} minus the largest D. Add it where it overlaps k = first, ..., U_j - 1.
        if len(later.mass):
            through = np.convolve(later.mass, step.mass[::-1])
            through_first = later.start - step.start - len(step.mass) + 1
            begin, end = max(first, through_first), min(certify[j], through_first + len(through))
            if begin < end:
                chance[begin - first : end - first] += through[begin - through_first : end - through_first]
        later = Counts(first, chance)
        chances.append(later)
    return chances[::-1]


def _weigh(paths: Counts, chance: Counts) -> Counts:
    """The mass of each count times its chance. Counts below those of `chance` do not occur and are left out."""
    paths = paths.above(chance.start - 1)
    offset = paths.start - chance.start
    return Counts(paths.start, paths.mass * chance.mass[offset : offset + len(paths.mass)])


def _require_whole(total: float, look: int) -> None:
    if not abs(total - 1.0) < 1e-10:
        raise ArithmeticError(
            f"probabilities must add up to 1, got {total!r} at look {look}: this is a defect of smoothcert"
        )
