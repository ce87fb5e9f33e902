"""glibc's allocator, told to keep the memory that one layer of a network frees for the next one.

Once more than twice the largest freed block is idle, glibc returns memory to the system, and takes it back from there
at the next layer: cleared, page by page. A pass of 64 CIFAR images through a ResNet20 caused some 4,000 page faults.
The limits set here are the largest ones to which glibc itself adapts: at most 64 MB are idle at the end of each arena,
of which glibc makes up to eight for each core. Holes between blocks in use are reused and not returned, with these
limits as without them. No number that is computed depends on it.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""The parameters of mallopt: blocks from this size on are mapped one by one; idle memory beyond this is returned."""
KEPT_BLOCK = 32 << 20
"""The largest block that may come out of kept memory; glibc accepts no more."""
KEPT_IDLE = 2 * KEPT_BLOCK
TUNED = ("mmap_threshold", "trim_threshold")
"""What a user may have set instead: MALLOC_TRIM_THRESHOLD_, or glibc.malloc.trim_threshold in GLIBC_TUNABLES."""


@cache
def settle() -> bool:
    """Keep freed memory, for the whole process; False where the allocator is another one or the user has tuned it."""
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    if any(f"MALLOC_{name.upper()}_" in os.environ or f"malloc.{name}" in tunables for name in TUNED):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return False
    return bool(mallopt(MMAP_THRESHOLD, KEPT_BLOCK)) and bool(mallopt(TRIM_THRESHOLD, KEPT_IDLE))
