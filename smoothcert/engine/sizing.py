"""The batch size of an ensemble by measurement: as large as makes it faster, and as memory allows.

A GPU is idle while the host prepares a small batch, and a batch that is too large does not fit. Which size is best
depends on the network and the device, so it is measured when an ensemble is loaded. On a CPU a batch goes through the
networks in small slices (`engine.form`), and its size hardly matters.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import torch

from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.form import is_out_of_memory
from smoothcert.engine.memory import fitting_batch

logger = logging.getLogger(__name__)

USUAL = 256
"""The batch size where none is measured, and the first one that is tried."""
MOST = 8192
GAIN = 1.05
"""A batch of twice the size must be faster by this factor; otherwise the smaller one lets results come sooner."""


def loaded(load: Callable[[int], Ensemble]) -> Ensemble:
    """What `load` makes for a number of images at a time: of the best size, and of the largest that fits if few do."""
    size = USUAL
    while True:
        try:
            return measured(load(size))
        except RuntimeError as error:
            if size == 1 or not is_out_of_memory(error):
                raise
            logger.info("batches of %d do not fit into memory", size)
        size //= 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def measured(ensemble: Ensemble) -> Ensemble:
    """The same networks, ready for batches of the best size."""
    best, best_rate, size = ensemble, 0.0, USUAL
    while size <= fitting_batch(MOST, ensemble.input_shape, ensemble.device):
        try:
            tried = ensemble.resized(size)
            rate = _rate(tried, size)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            logger.info("%s: batches of %d do not fit into memory", ensemble.name, size)
            break
        logger.info("%s: %.0f samples per second in batches of %d", ensemble.name, rate, size)
        if rate < GAIN * best_rate:
            break
        best, best_rate, size = tried, rate, 2 * size
    return best


def _rate(ensemble: Ensemble, size: int) -> float:
    """Samples per second through all members, after a first batch that chooses kernels and reserves memory."""
    batch = torch.zeros(size, *ensemble.input_shape, device=ensemble.device)
    ensemble.logits(batch).cpu()
    begun = time.perf_counter()
    ensemble.logits(batch).cpu()  # the answer of a GPU is there when it has been copied
    return size / (time.perf_counter() - begun)
