"""Numbers for people, rounded so that they never claim more than was proved."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


def counted(number: int, noun: str) -> str:
    """A number of things: "1 member", "3 members"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def radius_text(radius: float) -> str:
    """A radius with all of its decimals, of which there are at most six."""
    return f"{radius:.6f}".rstrip("0").rstrip(".")


def levels_text(radius: float) -> str:
    """A change of a value in [0, 1] as levels of 255, rounded down to two decimals."""
    return f"{(255 * Decimal(repr(radius))).quantize(Decimal('0.01'), ROUND_FLOOR).normalize():f} of 255 levels"


def interval_text(p_a: tuple[float, float], decimals: int) -> str:
    """An interval whose ends are rounded outwards."""
    low, high = (Decimal(repr(p)) for p in p_a)
    unit = Decimal(10) ** -decimals
    return f"{low.quantize(unit, ROUND_FLOOR)} to {high.quantize(unit, ROUND_CEILING)}"


def sureness(alpha: float | None) -> str:
    """How sure a claim is, for example "with 99.9 % confidence"; without an alpha it is certain."""
    return "for certain" if alpha is None else f"with {confidence_text(alpha)} % confidence"


def confidence_text(alpha: float) -> str:
    """1 - alpha in percent with all digits, since a rounded number might read 100."""
    return f"{(100 * (1 - Decimal(repr(alpha)))).normalize():f}"
