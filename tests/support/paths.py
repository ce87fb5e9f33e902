"""Every path of twelve samples, and how each ends between boundaries."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

LOOKS = [4, 8, 12]
PATHS = np.array(list(itertools.product((0, 1), repeat=12)))
COUNTS = np.cumsum(PATHS, axis=1)[:, [n - 1 for n in LOOKS]]
"""The count of each of the 4,096 paths at each look."""


def stops(certify: Sequence[int], abandon: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether each path certifies, whether it is abandoned, and the number of samples after which it ends."""
    certified, abandoned = np.zeros(len(PATHS), bool), np.zeros(len(PATHS), bool)
    samples = np.full(len(PATHS), LOOKS[-1])
    for n, counts, u, low in zip(LOOKS, COUNTS.T, certify, abandon, strict=True):
        alive = ~(certified | abandoned)
        certified |= alive & (counts >= u)
        abandoned |= alive & (counts < u) & (counts <= low)
        samples[alive & ((counts >= u) | (counts <= low))] = n
    return certified, abandoned, samples


def weights(p: float) -> np.ndarray:
    successes = PATHS.sum(axis=1)
    return p**successes * (1 - p) ** (12 - successes)
