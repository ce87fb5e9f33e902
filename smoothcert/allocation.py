"""How many samples a transfer takes for each image: the fewest for which the radii together lose a given share.

An image whose class is nearly certain needs most of the old samples to keep its radius, and others need few. The fewest
samples are those where one more would win the same radius for every image: a sample has one price, and each image takes
the number that is best at this price. All of it follows from the old certificates, before a sample is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from smoothcert.bounds import lower_bound
from smoothcert.certificate import Certificate
from smoothcert.errors import DomainError
from smoothcert.noise import Noise
from smoothcert.procedures.transfer import Transfer, facts, runs_jointly
from smoothcert.product import lower_difference

LOSS = 0.03
"""The share of all radii together that a transfer may be expected to lose, by default."""
DISAGREEMENT = 0.05
"""The disagreement that is expected by default: about that of a ResNet20 and its bfloat16 version."""
FEWEST = 0.01
"""The fewest samples for an image, as a share of the old ones."""
SIZES = 48
"""The numbers of samples that an image chooses from: each is about a tenth larger than the one before."""
STEPS = 64
"""The steps of the bound in a plan, which need not be as exact as a certificate."""
HALVINGS = 50
"""The steps in which the price is found, between 1e-6 and 1e6 times the mean radius that an old sample has won."""


def allocate(
    certificates: Sequence[Certificate], *, alpha: float, loss: float = LOSS, disagreement: float = DISAGREEMENT
) -> list[Transfer | None]:
    """A transfer for each `fixed` certificate, and None for an abstention.

    `loss` is the share of the radii of all certificates together that may be expected to be lost, between 0 and 1; each
    image takes as many samples as its old certificate had at most, also where more would be lost. `disagreement` is the
    share of the samples that the old ensemble does not give to its class, on as many of which both are expected to
    disagree; half of these are against the class.
    """
    if not 0 < loss < 1:
        raise DomainError(f"loss must be a share of the radii, between 0 and 1, got {loss!r}")
    if not 0 <= disagreement <= 1:
        raise DomainError(f"disagreement must be a share between 0 and 1, got {disagreement!r}")
    claims = [each for each in certificates if each.class_index is not None]
    prospects = [prospect(each.noise, *facts(each)[:2], alpha, disagreement) for each in claims]
    sizes = iter(fewest(prospects, loss))
    return [None if each.class_index is None else Transfer.of(each, next(sizes)) for each in certificates]


@dataclass(frozen=True)
class Prospect:
    """The radius that is expected of an image, by the number of samples; `whole` is that of a new certificate."""

    sizes: NDArray[np.int64]
    radii: NDArray[np.float64]
    whole: float

    def best(self, price: float) -> int:
        """The place of the number of samples that is worth most, if each costs as much radius as the price."""
        return int(np.argmax(self.radii - price * self.sizes))


@lru_cache(maxsize=4096)
def prospect(noise: Noise, count: int, n: int, alpha: float, disagreement: float) -> Prospect:
    sizes = np.unique(np.geomspace(max(1.0, FEWEST * n), n, SIZES).round().astype(np.int64))
    share = count / n
    lost = disagreement * (1 - share) / 2

    def expected(m: int) -> float:
        if runs_jointly(count, n):
            return lower_difference(count, n, lost * m, m, alpha, steps=STEPS)
        return float(betaincinv(share * m, (1 - share) * m + 1, alpha))

    radii = np.array([noise.radius(max(0.5, expected(int(m)))) for m in sizes])
    return Prospect(sizes, radii, noise.radius(max(0.5, lower_bound(count, n, alpha))))


def fewest(prospects: Sequence[Prospect], loss: float) -> list[int]:
    """The samples of each at the highest price at which all together lose no more."""
    whole = math.fsum(each.whole for each in prospects)
    if not whole:
        return [int(each.sizes[0]) for each in prospects]
    scale = whole / sum(int(each.sizes[-1]) for each in prospects)
    low, high = 1e-6 * scale, 1e6 * scale
    for _ in range(HALVINGS):
        price = math.sqrt(low * high)
        kept = math.fsum(each.radii[each.best(price)] for each in prospects)
        low, high = (price, high) if kept >= (1 - loss) * whole else (low, price)
    return [int(each.sizes[each.best(low)]) for each in prospects]
