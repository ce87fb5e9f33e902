"""Recorded samples of members whose answers are known."""

from __future__ import annotations

import numpy as np

from smoothcert.engine.study.logits import Recording
from smoothcert.engine.study.samples import About, Samples
from smoothcert.noise import Gaussian, Noise

NOISE = Gaussian(0.25)


def samples_of(shares: list[float], n: int = 5000, noise: Noise = NOISE) -> Samples:
    """Samples of two members that always agree and give class 0 to these shares of the samples of each image."""
    tapes = []
    for p in shares:
        logits = np.zeros((n, 2, 3), np.float32)
        winner = np.where(np.arange(n) < round(p * n), 0, 1)
        np.random.default_rng(0).shuffle(winner)
        logits[np.arange(n), :, winner] = 1
        tapes.append(Recording(np.eye(3, dtype=np.float32)[[0, 0]], logits))
    labels = [0] * len(shares)
    return Samples.of(About("two", "shares"), noise, labels, range(len(shares)), tapes.__getitem__)
