"""Numbers for people: rounded so that they never say more than was proved."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


def radius_text(radius: float) -> str:
    """All six decimals that a radius may have."""
    return f"{radius:.6f}".rstrip("0").rstrip(".")


def interval_text(p_a: tuple[float, float], decimals: int) -> str:
    """Rounded outwards."""
    low, high = (Decimal(repr(p)) for p in p_a)
    unit = Decimal(10) ** -decimals
    return f"{low.quantize(unit, ROUND_FLOOR)} to {high.quantize(unit, ROUND_CEILING)}"


def confidence_text(alpha: float) -> str:
    """In percent, exactly: rounded it might say 100."""
    return f"{(100 * (1 - Decimal(repr(alpha)))).normalize():f}"
