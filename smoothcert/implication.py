"""What the radius of a certificate says in other norms. It follows by geometry; nothing is certified again.

For a change delta of d values, |delta|_inf <= |delta|_2 <= |delta|_1, |delta|_1 <= sqrt(d) |delta|_2 and |delta|_2 <=
sqrt(d) |delta|_inf. A change of k values that stay in [0, 1] has |delta|_1 <= k and |delta|_2 <= sqrt(k). An l0 radius
says nothing about other norms, because the smallest change of all values is outside every l0 ball.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, isqrt, prod
from typing import TYPE_CHECKING, ClassVar

from pydantic import ConfigDict

from smoothcert.noise import Noise, Norm
from smoothcert.noise.grid import GRID

if TYPE_CHECKING:
    from smoothcert.certificate import Certificate

DECIMALS = 6
"""The decimals of a radius, as in a certificate."""
LEAST_CHANGE = Fraction(1, GRID)
"""The smallest change of an 8-bit image, in every norm but l0."""


@dataclass(frozen=True)
class Implication:
    """The certified answer also holds at every image x' within `radius` of the image x, in this norm.

    The ball is open, |x' - x| < radius, in the norms l2, l1 and linf. In l0 it is closed: x' differs from x in at most
    `radius` values.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(use_attribute_docstrings=True)

    norm: Norm
    radius: float
    """Rounded down to six decimals, and a whole number in l0."""
    eight_bit: bool
    """Whether only 8-bit images x' are meant, as in the certificate itself."""
    bounded: bool
    """Whether only images x' with values in [0, 1] are meant; 8-bit images always are such."""


def implied(certificate: Certificate) -> tuple[Implication, ...]:
    """What the certificate says in the norms in which it is not stated; nothing for an abstention.

    Where the size of the image is not in the certificate, what depends on it is left out.
    """
    if certificate.decision == "abstain":
        return ()
    shape = certificate.provenance.input.shape if certificate.provenance else ()
    return implications(certificate.noise, certificate.radius, prod(shape) if shape else None)


def implications(noise: Noise, radius: float, d: int | None) -> tuple[Implication, ...]:
    """What a radius of this noise says in the other norms, for images of d values."""
    exact = Fraction(repr(radius))  # a certificate means the decimal number that it shows
    d = noise.image_values or d
    squares: dict[Norm, Fraction]
    if (square := noise.l2_square(exact)) is not None:
        squares, values = _from_l2(square, d), ceil(square) - 1
    elif noise.norm == "l1":
        squares, values = _from_l1(exact, d, eight_bit=noise.eight_bit), ceil(exact) - 1
    elif noise.norm == "linf":
        squares, values = {"l2": exact**2, "l1": exact**2}, (d or 1) if exact > 1 else 0
    else:
        return ()
    found = [(norm, _root(square)) for norm, square in squares.items() if norm != noise.norm]
    least = LEAST_CHANGE if noise.eight_bit else 0
    balls = [Implication(norm, float(r), noise.eight_bit, bounded=False) for norm, r in found if r > least]
    if values < 1:  # no value may change: the answer at x is known already
        return tuple(balls)
    return *balls, Implication("l0", float(values if d is None else min(values, d)), noise.eight_bit, bounded=True)


def _from_l2(square: Fraction, d: int | None) -> dict[Norm, Fraction]:
    """The squares of the radii that follow from the square of an l2 radius."""
    balls: dict[Norm, Fraction] = {"l2": square, "l1": square}
    return {**balls, "linf": square / d} if d else balls


def _from_l1(radius: Fraction, d: int | None, *, eight_bit: bool) -> dict[Norm, Fraction]:
    """The squares of the radii that follow from an l1 radius."""
    if not d:
        return {}
    return {"l2": _shortest(radius, d) if eight_bit else radius**2 / d, "linf": (radius / d) ** 2}


def _shortest(radius: Fraction, d: int) -> Fraction:
    """The square of the least |delta|_2 of all changes of d bytes with |delta|_1 >= radius.

    Such a change moves the bytes by ceil(255 radius) levels or more in sum; it is shortest where these are spread
    evenly. Bytes cannot change by fractions, so this exceeds radius^2 / d, mostly by far.
    """
    each, more = divmod(ceil(GRID * radius), d)
    return Fraction((d - more) * each**2 + more * (each + 1) ** 2, GRID**2)


def _root(square: Fraction) -> Fraction:
    """The square root, rounded down to the decimals of a radius; exact, since a double could be too large."""
    return Fraction(isqrt(floor(square * 10 ** (2 * DECIMALS))), 10**DECIMALS)
