"""How many images a batch has: as many as were asked for, unless they are so large that memory or patience suffers."""

from __future__ import annotations

import math
import sys

import torch

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

CPU_BYTES = 20 << 20
"""The most bytes of a batch on a CPU: 32 images of 3 x 224 x 224. More would not be faster, because a network gets its
rows in slices of a few, and it would take so long that no progress shows."""
DEVICE_BYTES = 1 << 30
"""The most bytes of a batch on another device; the layers of a network take many times as much."""
LEAST = 8
"""The rows of the smallest slice on a CPU (`engine.form`), and the smallest batch that is chosen here."""


def fitting_batch(batch: int, input_shape: tuple[int, int, int], device: torch.device) -> int:
    """At most `batch`, and no more than fit; a multiple of LEAST where fewer fit."""
    most = (CPU_BYTES if device.type == "cpu" else DEVICE_BYTES) // (4 * math.prod(input_shape))
    return min(batch, max(LEAST, most - most % LEAST))


def peak_bytes() -> int:
    """The most memory that this process has had so far; 0 where the system does not say."""
    if resource is None:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
