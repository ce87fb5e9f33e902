"""What the workers have done since the beginning, as counters in one Redis hash.

The call that ends a certification also adds to the counters, so each certification is counted once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from store import keys
from store.commands import Command

SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""The upper ends, in seconds, of the buckets of durations and waits; a last bucket has no end."""


def counted(tally: Mapping[str, float]) -> list[Command]:
    return [("HINCRBYFLOAT", keys.STATISTICS, name, value) for name, value in tally.items() if value]


def bucket(name: str, seconds: float) -> dict[str, float]:
    """What one observation adds to a histogram: to its sum, and to one bucket."""
    return {f"{name}:sum": seconds, f"{name}:bucket:{bisect_left(SECONDS, seconds)}": 1}


def histogram(name: str, counters: Mapping[str, float]) -> tuple[list[tuple[str, float]], float]:
    """Cumulative counts by upper end, and the sum, in the form of Prometheus."""
    ends: Iterable[str] = [*map(str, SECONDS), "+Inf"]
    total, cumulative = 0.0, []
    for place, end in enumerate(ends):
        total += counters.get(f"{name}:bucket:{place}", 0.0)
        cumulative.append((end, total))
    return cumulative, counters.get(f"{name}:sum", 0.0)
