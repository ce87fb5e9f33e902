"""The boundaries of a test that gives up where going on costs more than a certificate is worth.

As in `smoothcert.sequential`, the test compares a running count with integer boundaries at looks that are fixed in
advance, and its certify boundary U spends alpha as if nothing were abandoned. Two things are new.

The abandon boundary L follows from a price, the samples that one certificate is worth. With Jeffreys' prior for p_A, it
minimises E[samples] - price * P(certify) over all rules that may stop at the looks and certify at U. It has no part in
soundness.

The class may be the leader: at each look the class with the most samples so far, so that no samples are spent on
choosing it. Write f(q) for the probability that the count of a class of probability q ever reaches U. A class is
certified only if its own count reaches U, so a class of probability below p0 is certified with probability at most the
sum of f(p_c) over all p_c < p0.

1. For q <= p0, q f'(q) / f(q) >= M, where M is the least (U_j - p0 n_j) / (1 - p0) of the looks that can certify. For
   f is a sum of terms q^k (1 - q)^(n_j - k) with k >= U_j, each with q times its logarithmic derivative equal to
   (k - q n_j) / (1 - q), and this falls in q.
2. Where f(p0) <= 1/2 <= p0, M may be taken as at least 1 (Moore and Shannon): q (1 - q) f'(q) is the covariance of the
   number of successes with the event of crossing, and is at least its variance, f (1 - f).
3. So f(q) <= f(p0) (q / p0)^M, and the sum over classes is convex in the p_c. Its maximum is at a corner: one class of
   probability p0, one of 1 - p0. The probability of a false certificate is at most
   (1 + rho) f(p0) with rho = ((1 - p0) / p0)^M.

Several radii share one run and the whole alpha. Their boundaries rise with the radius, so a false claim about a class
must have crossed the boundary of the first radius that is false for it, whatever larger radius it claims.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum, log, log1p, pi

import numpy as np
from scipy.special import betaln

from smoothcert.binomial import NOTHING_DRAWN, Counts, Mass, binomial
from smoothcert.boundaries import Boundaries, Outcome
from smoothcert.errors import DomainError, require_count
from smoothcert.memo import memo
from smoothcert.sequential import (
    SLACK,
    CertifyBoundary,
    certify_boundary,
    looks_up_to,
    require_budget,
    require_testable,
    rounded_up,
    steps_of,
)

END_SHARE = 0.3
"""The share of alpha that is left to the last look."""
MOST_LEADING_ALPHA = 0.5
"""The largest alpha where the class is the leader: the proof needs f(p0) <= 1/2."""
WIDTH = 8.0
"""The standard deviations below the mean under p0 at which the induction begins: a count below them is hopeless."""
MOST_EXPONENT = 600.0
"""The largest logarithm of a likelihood ratio. Larger ones, of a few samples and a p0 very close to 1, would overflow;
such a count is hopeless whatever the exact value."""
MARGIN = 60
"""The counts below WIDTH that are followed as well, for small means."""
KEPT_BYTES = 8 * 2**20
"""The bytes of boundaries that are kept in memory, those of about two thousand radii."""


@dataclass(frozen=True, eq=False)
class CurveBoundaries(Boundaries):
    """The boundaries of one run for several radii; the arrays of the base class are those of the least radius.

    A run that has certified a radii compares its count with the boundaries of the next one.
    """

    rungs: tuple[Boundaries, ...] = field(kw_only=True)
    """The boundaries of each radius, in increasing order."""
    radii: tuple[float, ...] = field(kw_only=True)

    def _pooled_outcome(self, p: float) -> CurveOutcome:
        # alive[a] is the distribution of the count over the paths that go on and have certified a radii.
        alive = [NOTHING_DRAWN] + [_NOWHERE] * (len(self.rungs) - 1)
        ended: list[list[float]] = [[0.0] for _ in range(len(self.rungs) + 1)]
        abandoned, samples = [0.0], [0.0]
        for j, step in enumerate(self.steps.tolist()):
            if not any(len(paths.mass) for paths in alive):
                break
            # 1. Draw for all paths, and let each climb over the boundaries that its count has reached.
            samples.append(step * fsum(paths.total for paths in alive))
            climbed = self._climbed([paths.plus(step, p) for paths in alive], j)
            # 2. Paths that have certified every radius end.
            ended[-1].append(climbed.pop().total)
            # 3. The others give up the next radius or go on. A path that gives up keeps the a radii that it has
            # certified.
            for a, (paths, rung) in enumerate(zip(climbed, self.rungs, strict=True)):
                given_up = paths.lower_tail(int(rung.abandon[j]))
                ended[a].append(given_up)
                abandoned.append(given_up if a == 0 else 0.0)
                alive[a] = paths.above(int(rung.abandon[j])).without_dust()
        # 4. After the last look, the paths that are left end with what they have certified.
        for a, paths in enumerate(alive):
            ended[a].append(paths.total)
        shares = [fsum(each) for each in ended]
        certified = tuple(min(1.0, fsum(shares[a:])) for a in range(1, len(shares)))
        gained = np.diff(self.radii, prepend=0.0).tolist()
        return CurveOutcome(
            certify=certified[0],
            abandon=min(1.0, fsum(abandoned)),
            samples=fsum(samples),
            radius=fsum(gain * share for gain, share in zip(gained, certified, strict=True)),
            certified=certified,
        )

    def _climbed(self, at_look: list[Counts], j: int) -> list[Counts]:
        """The paths by the number of radii certified after look j, where entry a of `at_look` had certified a."""
        climbed: list[list[Counts]] = [[] for _ in range(len(self.rungs) + 1)]
        for a, paths in enumerate(at_look):
            for b in range(a, len(self.rungs)):
                if not len(paths.mass):
                    break
                u = int(self.rungs[b].certify[j])  # from here on, radius b + 1 is certified
                climbed[b].append(paths.below(u))
                paths = paths.above(u - 1)
            climbed[-1].append(paths)
        return [_together(each) for each in climbed]


@dataclass(frozen=True)
class CurveOutcome(Outcome):
    """The behaviour of a run for several radii; `certify` is the chance to certify the least of them."""

    certified: tuple[float, ...] = ()
    """P(certify) for each radius."""


_NOWHERE = Counts(0, np.empty(0))


def _together(parts: Sequence[Counts]) -> Counts:
    """The sum of sub-distributions."""
    parts = [each for each in parts if len(each.mass)]
    if not parts:
        return _NOWHERE
    start = min(each.start for each in parts)
    mass = np.zeros(max(each.start + len(each.mass) for each in parts) - start)
    for each in parts:
        mass[each.start - start : each.start - start + len(each.mass)] += each.mass
    return Counts(start, mass)


def boundaries(p0: float, *, alpha: float, price: int, max_samples: int, leading: bool) -> Boundaries:
    """The boundaries of the test of p_A >= p0, where one certificate is worth `price` samples.

    With `leading` the class is the one with the most samples at each look. Then p0 must be at least 1/2, and alpha at
    most 1/2.
    """
    return curve((p0,), alpha=alpha, price=price, max_samples=max_samples, leading=leading)[0]


@memo(KEPT_BYTES, lambda rungs: sum(3 * rung.looks.nbytes for rung in rungs))
def curve(
    p0s: tuple[float, ...], *, alpha: float, price: int, max_samples: int, leading: bool
) -> tuple[Boundaries, ...]:
    """The boundaries of the tests of p_A >= p0 for increasing p0, all from one run and with one alpha."""
    for p0 in p0s:
        require_testable(p0, alpha=alpha, beta=alpha)
    require_count("price", price)
    require_budget(max_samples)
    if leading:
        require_leading(p0s[0], alpha)
    looks = looks_up_to(max_samples)
    built: list[Boundaries] = []
    for p0, certify in zip(p0s, certify_curve(p0s, looks, alpha, leading=leading), strict=True):
        abandon, worth = abandon_boundary(rounded_up(p0), looks, certify, price)
        built.append(Boundaries(np.array(looks), np.array(certify), np.array(abandon), worth=worth))
    return tuple(built)


def require_leading(p0: float, alpha: float) -> None:
    """Raise DomainError where the proof for the leading class does not hold."""
    if not p0 >= 0.5:
        raise DomainError(f"p0 must be at least 1/2 where no samples choose the class (n0 = 0), got {p0!r}")
    if not alpha <= MOST_LEADING_ALPHA:
        raise DomainError(f"alpha must be at most 1/2 where no samples choose the class (n0 = 0), got {alpha!r}")


def certify_curve(p0s: Sequence[float], looks: list[int], alpha: float, *, leading: bool) -> list[list[int]]:
    """U_j for each p0. Each rises above the one before it, and together they err with probability at most alpha."""
    first, rho = certify_alone(rounded_up(p0s[0]), looks, alpha, leading=leading)
    curve = [first.counts]
    # If the most probable class makes a false claim about a later p0, the others, of total probability at most
    # 1 - p0 of the first, may still cross the first boundary: that is what rho times its error pays for.
    level = alpha * (1 - SLACK) - rho * first.spent
    for p0 in p0s[1:]:
        alone = certify_boundary(rounded_up(p0), looks, level, end_share=END_SHARE).counts
        curve.append([max(u, below) for u, below in zip(alone, curve[-1], strict=True)])
    return curve


def certify_alone(p0: float, looks: list[int], alpha: float, *, leading: bool) -> tuple[CertifyBoundary, float]:
    """U_j for one p0, and rho: the error of all other classes as a share of that of the class with probability p0."""
    level = alpha * (1 - SLACK)
    while True:
        found = certify_boundary(p0, looks, level, end_share=END_SHARE)
        rho = rival_share(p0, looks, found.counts) if leading else 0.0
        if found.spent * (1 + rho) <= alpha * (1 - SLACK):
            return found, rho
        level /= 1 + rho  # once, or twice for radii near 0


def rival_share(p0: float, looks: list[int], certify: list[int]) -> float:
    """rho of the proof above; 0 where no look can certify."""
    steepness = [(u - p0 * n) / (1 - p0) for n, u in zip(looks, certify, strict=True) if u <= n]
    if not steepness:
        return 0.0
    return math.exp(max(1.0, min(steepness)) * (log1p(-p0) - log(p0)))


def abandon_boundary(p0: float, looks: list[int], certify: list[int], price: int) -> tuple[list[int], float]:
    """L_j, and the expected worth of a run beyond its samples: price * P(certify) - E[samples] under the prior."""
    # Backward induction under p0, where the likelihood ratio w turns expectations under p0 into those under the prior.
    # V_j(k) is the least expected cost of all that follows look j at count k, times w:
    #     V_j(k) = -price w(n_j, k) from U_j on, and min(0, G_j(k)) below, where 0 means to give up, and
    #     G_j(k) = d w(n_j, k) + sum over x of Bin(d, p0)(x) V_{j+1}(k + x) means to draw the next d samples.
    # Look 0 comes before the first sample; it can neither certify nor be left out.
    looks, certify = [0, *looks], [1, *certify]
    steps = steps_of(looks)
    low = _first_followed(p0, looks[-1], certify[-1])
    later = Counts(low, np.zeros(max(0, certify[-1] - low)))  # V_J below U_J: no samples are left
    boundary, worth = [-1], 0.0
    for j in range(len(looks) - 2, -1, -1):
        # 1. The counts low, ..., u - 1 at this look, for which V and G are computed.
        n, u = looks[j], min(certify[j], looks[j] + 1)
        low = _first_followed(p0, n, u)
        step = binomial(steps[j + 1], p0)
        # 2. G_j: the values at the next look, for all counts that one of these can lead to, averaged over the step.
        ahead = _values(later, low + step.start, u + step.start + len(step.mass) - 1, looks[j + 1], p0, price)
        cost = steps[j + 1] * likelihood_ratio(n, low, u, p0)
        going_on = cost + np.correlate(ahead, step.mass, mode="valid")
        # 3. L_j is the count below the first at which going on is worthwhile.
        worthwhile = np.flatnonzero(going_on < 0)  # an upper set: a larger count can imitate a smaller one
        boundary.append(low + int(worthwhile[0]) - 1 if len(worthwhile) else certify[j] - 1)
        later, worth = Counts(low, np.minimum(0.0, going_on)), -float(going_on[-1])
    return boundary[-2::-1], worth


def _first_followed(p0: float, n: int, u: int) -> int:
    """The least count at n samples that the induction follows: one below it is given up."""
    low = math.floor(n * p0 - WIDTH * math.sqrt(n * p0 * (1 - p0)) - MARGIN)
    return min(max(0, low), u - 1)


def _values(later: Counts, begin: int, end: int, n: int, p0: float, price: int) -> Mass:
    """V at n samples for the counts begin, ..., end - 1: `later` below U, and certificates from there on."""
    values = np.zeros(end - begin)
    u = later.start + len(later.mass)
    first, last = max(begin, later.start), min(end, u)
    if first < last:
        values[first - begin : last - begin] = later.mass[first - later.start : last - later.start]
    first, last = max(begin, u), min(end, n + 1)
    if first < last:
        values[first - begin : last - begin] = -price * likelihood_ratio(n, first, last, p0)
    return values


def likelihood_ratio(n: int, begin: int, end: int, p0: float) -> Mass:
    """w(n, k) for k = begin, ..., end - 1: the probability of a path under Jeffreys' prior by that under p0."""
    k = np.arange(begin, end, dtype=np.float64)
    exponent = betaln(k + 0.5, n - k + 0.5) - log(pi) - k * log(p0) - (n - k) * log1p(-p0)
    ratio: Mass = np.exp(np.minimum(exponent, MOST_EXPONENT))
    return ratio


def leader_outcome(rule: Boundaries, p: float) -> Outcome:
    """The behaviour of a run that follows the leader of two classes of probability p and 1 - p.

    `certify` is the probability that the first of them is certified.
    """
    alive = NOTHING_DRAWN
    certified, abandoned, samples = [0.0], [0.0], [0.0]
    rows = zip(*(a.tolist() for a in (rule.looks, rule.steps, rule.certify, rule.abandon)), strict=True)
    for n, step, u, low in rows:
        # The count is that of the first class; the second has n minus it, so its boundaries are mirrored at n / 2.
        samples.append(step * alive.total)
        at_look = alive.plus(step, p)
        certified.append(at_look.upper_tail(u))
        undecided = at_look.below(u).above(n - u)  # at n - u or less, the other class is certified
        abandoned.append(undecided.above(n - low - 1).below(low + 1).total)
        # what goes on is on either side of the counts at which neither class leads by enough
        sides = [undecided] if 2 * low < n else [undecided.below(n - low), undecided.above(low)]
        alive = _together(sides).without_dust()
        if not len(alive.mass):
            break
    return Outcome(min(1.0, fsum(certified)), min(1.0, fsum(abandoned)), fsum(samples))
