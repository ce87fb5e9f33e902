"""When a request is sent again: all the numbers."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from smoothcert.client.errors import ClientError
from smoothcert.errors import require_count


@dataclass(frozen=True)
class Retries:
    """Exponential backoff with jitter: pauses of about 0.25, 0.5, 1, 2, ... seconds, or what the service asks for."""

    most: int = 5
    """How often a request is sent again."""
    first_s: float = 0.25
    """The first pause in seconds."""
    factor: float = 2.0
    """The ratio of a pause to the one before it."""
    longest_s: float = 8.0
    """The longest pause in seconds that the client chooses itself."""
    jitter: float = 0.5
    """The random share of each pause, so that clients that were cut off together do not come back together."""
    longest_retry_after_s: float = 60.0
    """The longest Retry-After in seconds that is waited for; a longer one is left to the caller as an error."""
    insistent: bool = False
    """Whether to try again even where nothing has ever listened, because the caller has chosen the number of tries."""
    chance: random.Random = field(default_factory=random.Random, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_count("retries", self.most, least=0)

    @classmethod
    def of(cls, most: int | None) -> Retries:
        """As many as the caller has chosen; None leaves the choice to us."""
        return cls() if most is None else cls(most=most, insistent=True)

    def pause(self, error: ClientError, attempt: int) -> float | None:
        """Seconds to wait after this failure of the attempt, counted from 1; None if it is the last attempt."""
        if not error.passing or attempt > self.most:
            return None
        if error.retry_after is not None and error.retry_after > self.longest_retry_after_s:
            return None
        return max(self.backoff(attempt), error.retry_after or 0.0)

    def backoff(self, attempt: int) -> float:
        """The pause in seconds after this many failures, where the service has not asked for one."""
        whole = min(self.longest_s, self.first_s * self.factor ** min(attempt - 1, 30))
        return whole * (1.0 - self.jitter * self.chance.random())


def retry_after(header: str | None) -> float | None:
    """The seconds of a Retry-After header (RFC 9110), which has seconds or a date; None if it has neither."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
