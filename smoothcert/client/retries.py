"""When a request is sent again: all numbers of it."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from smoothcert.client.errors import ClientError
from smoothcert.errors import require_count


@dataclass(frozen=True)
class Retries:
    """Exponential backoff with jitter: pauses of about 0.25, 0.5, 1, 2, ... seconds, or as long as the service says."""

    most: int = 5
    """Times that a request is sent again,"""
    first_s: float = 0.25
    factor: float = 2.0
    longest_s: float = 8.0
    jitter: float = 0.5
    """a share of each pause that is left to chance, so that clients cut off together do not come back together."""
    longest_retry_after_s: float = 60.0
    """Whoever is told to come back later than this is told so."""
    chance: random.Random = field(default_factory=random.Random, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_count("retries", self.most, least=0)

    def pause(self, error: ClientError, attempt: int) -> float | None:
        """Seconds to wait after this failure of the attempt, counted from 1; None where it is the last."""
        if not error.passing or attempt > self.most:
            return None
        if error.retry_after is not None and error.retry_after > self.longest_retry_after_s:
            return None
        return max(self.backoff(attempt), error.retry_after or 0.0)

    def backoff(self, attempt: int) -> float:
        """The pause after so many failures, where nobody has said how long."""
        whole = min(self.longest_s, self.first_s * self.factor ** min(attempt - 1, 30))
        return whole * (1.0 - self.jitter * self.chance.random())


def retry_after(header: str | None) -> float | None:
    """Seconds by a Retry-After header (RFC 9110), which has seconds or a date; None where it has neither."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
