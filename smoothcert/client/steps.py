"""What a client wants done, as data: its whole logic is generators that yield steps and are sent what came of them.

A driver performs the steps, one with blocking sockets (`blocking.py`), one on an event loop (`asynchronous.py`). An
exception of a step is thrown into the generator, also KeyboardInterrupt and cancellation, so that it can clean up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

R = TypeVar("R")


@dataclass(frozen=True)
class Send:
    """Send a request. Gives the httpx.Response, read whole; httpx.RequestError where there is none."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    wait_s: float = 0.0
    """How much longer than usual the answer may take,"""
    within_s: float = math.inf
    """but no longer than this."""


@dataclass(frozen=True)
class Listen(Send):
    """Send a request. Gives the httpx.Response as soon as it begins; it ends what was listened to before."""

    silence_s: float = 30.0
    """After so long without a byte the stream counts as cut."""


@dataclass(frozen=True)
class Hear:
    """Gives the next bytes of what is listened to, none at its end; httpx.RequestError where it was cut."""


@dataclass(frozen=True)
class HangUp:
    """Listen no longer."""


@dataclass(frozen=True)
class Sleep:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True)
class Pull:
    """Gives the next one of what the caller iterates over, or EXHAUSTED."""


@dataclass(frozen=True)
class Tell:
    """Hand something to the caller, who iterates over what is told."""

    what: Any


EXHAUSTED = object()

Step = Send | Hear | HangUp | Sleep | Pull | Tell
Steps = Generator[Step, Any, R]
"""Steps that end in a result."""


class CallerLeftError(BaseException):
    """The caller iterates no further. It stands for GeneratorExit, at which `yield from` allows no further step."""


class Play(Generic[R]):
    """Steps under way: `step` is the one to perform now; None at the end, and then there is a `result`."""

    result: R

    def __init__(self, steps: Steps[R]) -> None:
        self._steps = steps
        self.step: Step | None
        self.answer(None)

    def answer(self, what: Any) -> None:
        """Go on with what came of the step."""
        self._go_on(lambda: self._steps.send(what))

    def throw(self, error: BaseException) -> None:
        """Go on with its failure; raises what the steps make of it."""
        reaching = CallerLeftError() if isinstance(error, GeneratorExit) else error
        self._go_on(lambda: self._steps.throw(reaching))

    def _go_on(self, advance: Callable[[], Step]) -> None:
        try:
            self.step = advance()
        except StopIteration as end:
            self.step, self.result = None, end.value
        except CallerLeftError:
            self.step = None
