"""Whether memory grows: its mean in the middle of a run, and at its end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def growth(seen: Sequence[float]) -> tuple[float, float]:
    """The mean of a fifth of the run in its middle, and of its last fifth."""
    fifth, middle = max(1, len(seen) // 5), len(seen) // 2
    return float(np.mean(seen[middle : middle + fifth])), float(np.mean(seen[-fifth:]))
