"""Results of a pure function, kept in memory up to a number of bytes.

`functools.lru_cache` is bounded by a number of entries. That does not bound the memory where an entry may be an array
of any size, and the questions that decide about it come from clients.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

OVERHEAD = 1_000
"""The bytes that an entry takes beside its arrays: its key and its objects, rounded up."""


class Memo(Generic[Arguments, Answer]):
    """A function that gives back what it gave before, for the arguments that were used last.

    Arguments of different types are different arguments. Threads may share it; two that ask for the same at once may
    both compute it.
    """

    def __init__(self, function: Callable[Arguments, Answer], most_bytes: int, nbytes: Callable[[Any], int]) -> None:
        self._function, self._measure, self.most_bytes = function, nbytes, most_bytes
        self._kept: OrderedDict[Hashable, tuple[Answer, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.nbytes = 0
        update_wrapper(self, function)

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        key = _key(args, kwargs)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        answer = self._function(*args, **kwargs)
        self._keep(key, answer)
        return answer

    def _keep(self, key: Hashable, answer: Answer) -> None:
        size = self._measure(answer) + OVERHEAD
        with self._lock:
            if size > self.most_bytes or key in self._kept:
                return
            self._kept[key] = answer, size
            self.nbytes += size
            while self.nbytes > self.most_bytes:
                _, (_, freed) = self._kept.popitem(last=False)
                self.nbytes -= freed

    def cache_clear(self) -> None:
        """Forget all that is kept."""
        with self._lock:
            self._kept.clear()
            self.nbytes = 0


def memo(
    most_bytes: int, nbytes: Callable[[Any], int]
) -> Callable[[Callable[Arguments, Answer]], Memo[Arguments, Answer]]:
    """A decorator: keep results up to `most_bytes` in all, where `nbytes` measures the arrays of one."""
    return lambda function: Memo(function, most_bytes, nbytes)


def _key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    named = tuple(sorted(kwargs.items()))
    return args, named, tuple(type(value) for value in (*args, *(value for _, value in named)))
