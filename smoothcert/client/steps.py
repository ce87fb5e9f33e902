"""Steps: what a client needs done, as data.

The whole logic of the client is generators that yield steps and are sent their results. A driver performs the steps,
one with blocking sockets (`blocking.py`), one on an event loop (`asynchronous.py`). An exception of a step is thrown
into the generator, KeyboardInterrupt and cancellation included, so that the generator can clean up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

R = TypeVar("R")


@dataclass(frozen=True)
class Send:
    """Send a request. Its result is the httpx2.Response, read whole; httpx2.RequestError if there is none."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    wait_s: float = 0.0
    """The seconds by which the response may take longer than usual."""
    within_s: float = math.inf
    """The most seconds that the response may take, `wait_s` included."""


@dataclass(frozen=True)
class OpenStream(Send):
    """Send a request. Its result is the httpx2.Response as soon as it begins; a stream opened before is closed."""

    silence_s: float = 30.0
    """The seconds without a byte after which the stream counts as cut."""


@dataclass(frozen=True)
class ReadChunk:
    """Read from the open stream. Its result is the next bytes, none at the end; httpx2.RequestError if it was cut."""


@dataclass(frozen=True)
class CloseStream:
    """Close the open stream, if there is one."""


@dataclass(frozen=True)
class Sleep:
    """Wait for this many seconds. It has no result."""

    seconds: float


@dataclass(frozen=True)
class Pull:
    """Take the next item of the caller's iterable. Its result is the item, or EXHAUSTED."""


@dataclass(frozen=True)
class Emit:
    """Yield an item to the caller, who iterates over the items."""

    item: Any


EXHAUSTED = object()

Step = Send | ReadChunk | CloseStream | Sleep | Pull | Emit
Steps = Generator[Step, Any, R]
"""Steps that end in a result."""


class CallerLeftError(BaseException):
    """The caller iterates no further. It replaces GeneratorExit, after which `yield from` allows no further step."""


class StepRun(Generic[R]):
    """Steps that are being performed: `step` is the next one; None at the end, and then there is a `result`."""

    result: R

    def __init__(self, steps: Steps[R]) -> None:
        self._steps = steps
        self.step: Step | None
        self.send(None)

    def send(self, result: Any) -> None:
        """Go on with the result of the step."""
        self._advance(lambda: self._steps.send(result))

    def throw(self, error: BaseException) -> None:
        """Go on with the failure of the step; raises the error that the steps make of it."""
        thrown = CallerLeftError() if isinstance(error, GeneratorExit) else error
        self._advance(lambda: self._steps.throw(thrown))

    def _advance(self, advance: Callable[[], Step]) -> None:
        try:
            self.step = advance()
        except StopIteration as end:
            self.step, self.result = None, end.value
        except CallerLeftError:
            self.step = None
