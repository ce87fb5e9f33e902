"""When to stop sampling for the largest radius: a run that ends only on bad news pays nothing for looking.

At looks n_1 < ... < n_J that are fixed in advance, a run ends if its count S_j is at most E_j, where E_J = n_J, and
claims p_A >= lower(S_j, n_j, alpha), the Clopper–Pearson bound at the full alpha. It may also be abandoned by any rule,
and then claims nothing. Whatever the E_j are, the claim is false with probability at most alpha:

Let p be the probability of the class. The claim at look j is false if and only if S_j >= h_j, where h_j is the least k
with P(Bin(n_j, p) >= k) < alpha. Let j* be the first look with E_j >= h_j; it depends on p alone. A false claim at look
j needs h_j <= S_j <= E_j, so j >= j*. If j = j*, then S_j* >= h_j*. If j > j*, the run did not end at j*, so S_j* >
E_j* >= h_j*. In both cases S_j* >= h_j* at one look that is fixed in advance, which has probability below alpha.

The proof needs every count up to E_j to end the run, even where nothing is proved: to go on from low counts would leave
a hole below h_j and multiply the error. And it must never end on good news, that is, on a count above one that goes on.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from math import fsum

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from smoothcert.binomial import NOTHING_DRAWN
from smoothcert.boundaries import Boundaries, Integers, Outcome
from smoothcert.bounds import ALMOST_ONE, lower_bound, upper_bound
from smoothcert.errors import require_count, require_level
from smoothcert.memo import memo
from smoothcert.noise import Noise
from smoothcert.sequential import looks_up_to, require_budget

Reals = npt.NDArray[np.float64]

NEVER = -1
"""The threshold of a look that no count ends or abandons."""
KEPT_BYTES = 2 * 2**20
"""The bytes of thresholds that are kept in memory, those of about five hundred questions."""


@dataclass(frozen=True, eq=False)
class Thresholds(Boundaries):
    """At look j the run ends if the count is at most `ends[j]`, and is abandoned if it is at most `abandon[j]`.

    At the last look every count ends it, and perhaps at earlier ones. Only there `certify` says which counts prove a
    radius; elsewhere a larger count never ends the run.
    """

    ends: Integers = field(kw_only=True)
    proving: Integers = field(kw_only=True)
    """The least count at each look that proves any radius: its lower bound is above 1/2."""
    needed: Integers = field(kw_only=True)
    """The least count at each look that proves the radius in question; any radius unless one is named."""
    noise: Noise = field(kw_only=True)
    alpha: float = field(kw_only=True)

    @property
    def certifying(self) -> npt.NDArray[np.bool_]:
        return self.needed <= self.ends

    def _pooled_outcome(self, p: float) -> Outcome:
        # `alive` is the distribution of the count over the paths that go on, as in `Boundaries`.
        alive = NOTHING_DRAWN
        certified, abandoned, samples, radius = [0.0], [0.0], [0.0], [0.0]
        columns = (self.looks, self.steps, self.ends, self.proving, self.abandon)
        for n, step, end, proving, abandon in zip(*(column.tolist() for column in columns), strict=True):
            samples.append(step * alive.total)
            at_look = alive.plus(step, p)
            proved = at_look.below(end + 1).above(proving - 1).without_dust()
            certified.append(proved.total)
            counts = proved.start + np.arange(len(proved.mass))
            radius.append(float(proved.mass @ reach(self.noise, counts, n, self.alpha)))
            abandoned.append(at_look.lower_tail(abandon))
            alive = at_look.above(max(end, abandon)).without_dust()
            if not len(alive.mass):
                break
        return Outcome(min(1.0, fsum(certified)), min(1.0, fsum(abandoned)), fsum(samples), fsum(radius))


@memo(KEPT_BYTES, lambda found: 6 * found.looks.nbytes)
def thresholds(noise: Noise, *, alpha: float, beta: float, max_samples: int, price: int) -> Thresholds:
    """The thresholds of a run for the largest radius, where a radius of 1 is worth `price` samples.

    A run ends where, at the rate seen so far, no later look would add as much radius as its samples are worth. Before
    any radius is in sight it is abandoned where none is likely to come into sight: for a p_A that is worth its samples
    this has probability at most beta.
    """
    require_budget(max_samples)
    require_count("price", price)
    require_level("alpha", alpha)
    looks = looks_up_to(max_samples)
    share = beta / max(1, len(looks) - 1)
    require_level("beta divided by the looks", share)
    proving = [least_proving_count(n, alpha) for n in looks]
    ends, abandon = [], []
    for j, (n, least) in enumerate(zip(looks[:-1], proving, strict=False)):
        later = _Later(noise, alpha, n, np.array(looks[j + 1 :]), price)
        ends.append(later.end(least))
        abandon.append(later.hopeless(share) if ends[-1] == NEVER else NEVER)
    ends, abandon = [*ends, looks[-1]], [*abandon, NEVER]
    certify = [least if end >= n else n + 1 for n, least, end in zip(looks, proving, ends, strict=True)]
    return Thresholds(
        np.array(looks),
        np.array(certify),
        np.array(abandon),
        ends=np.array(ends),
        proving=np.array(proving),
        needed=np.array(proving),
        noise=noise,
        alpha=alpha,
    )


def least_proving_count(n: int, alpha: float) -> int:
    """The least count among n whose lower bound is above 1/2; n + 1 if there is none."""
    return bisect_left(range(n + 1), True, key=lambda k: lower_bound(k, n, alpha) > 0.5)


def reach(noise: Noise, counts: npt.ArrayLike, n: int | Integers, alpha: float) -> Reals:
    """The radius that each count among its n samples proves; counts may be any real numbers above 0, as rates give."""
    k = np.asarray(counts, dtype=np.float64)
    p_lower = np.minimum(betaincinv(k, n - k + 1, alpha), ALMOST_ONE)
    return np.array([noise.radius(p) for p in p_lower.tolist()])


@dataclass(frozen=True)
class _Later:
    """The looks after the one at n samples, and what they would add."""

    noise: Noise
    alpha: float
    n: int
    looks: Integers
    price: int

    @property
    def costs(self) -> Reals:
        """The samples up to each later look, as radius."""
        return np.asarray((self.looks - self.n) / self.price)

    def end(self, least: int) -> int:
        """E: the greatest count at which no later look is worth its samples; NEVER where some is at every count.

        `least` is the least count that proves a radius. Lower counts end as well where it does.
        """
        if least > self.n or self._gains(least):
            return NEVER
        return least + bisect_left(range(least, self.n + 1), True, key=self._gains) - 1

    def _gains(self, count: int) -> bool:
        """Whether some later look adds more than it costs, if the rate stays as it is. Rises with the count."""
        (now,) = reach(self.noise, [count], self.n, self.alpha)
        then = reach(self.noise, count * self.looks / self.n, self.looks, self.alpha)
        return bool((then - self.costs > now).any())

    def hopeless(self, beta: float) -> int:
        """L: the greatest count at which even the upper bound on p_A makes no later look worth its samples."""

        def hope(count: int) -> bool:
            p_upper = upper_bound(count, self.n, beta)
            return bool((reach(self.noise, p_upper * self.looks, self.looks, self.alpha) > self.costs).any())

        return bisect_left(range(self.n + 1), True, key=hope) - 1
