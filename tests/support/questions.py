"""Questions and images that the small networks of the tests answer."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.certificate import Certificate
from smoothcert.procedures import Fixed
from tests.support.worker_networks import SHAPE
from tests.support.zoo import SIGMA

QUICK: Any = {"ensemble": "trivial", "radius": 0.02, "procedure": "sequential"}
"""A question that is answered in a moment."""
ENDLESS: Any = {"ensemble": "moody", "procedure": Fixed(n=1_000_000)}
"""A question that takes minutes, long enough to be left in the middle."""


def pixels(value: int) -> npt.NDArray[np.uint8]:
    """An image [C, H, W]: class 0 if it is dark, class 1 if it is light."""
    return np.full(SHAPE, value, np.uint8)


DARK, LIGHT = pixels(0), pixels(255)
GREY = 30 / 63
"""The value of every pixel at which the members disagree: 10 and 11 times the sum of three channels against 15."""
HARD = GREY + SIGMA / math.sqrt(math.prod(SHAPE))
"""The value at which the class has just the probability that QUICK's radius needs, which takes all samples."""


def of_another_ensemble(line: str, digest: str, other: str) -> str:
    """A line of a ledger, as if an ensemble of another digest had answered."""
    record = json.loads(line.replace(digest, other))
    record["certificate"]["digest"] = Certificate.model_validate(record["certificate"]).expected_digest()
    return json.dumps(record)
