"""`Smoothed` in its process: its thread, its copies, and its behaviour in a fork."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import threading
import warnings
import weakref
from collections.abc import Callable

import pytest

from smoothcert.engine.smoothed import Smoothed
from tests.support.smoothed import NOISE, images, patches


def engine_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("engine-")]


def test_the_thread_begins_with_the_first_images_and_ends_at_close() -> None:
    before = len(engine_threads())
    smoothed = Smoothed(patches(), NOISE)
    assert len(engine_threads()) == before
    smoothed.predict(images(1)[0], n=10)
    assert len(engine_threads()) == before + 1
    smoothed.close()
    smoothed.close()
    assert len(engine_threads()) == before
    smoothed.predict(images(1)[0], n=10)  # a call after close starts another thread
    assert len(engine_threads()) == before + 1
    smoothed.close()


def test_an_object_that_is_forgotten_ends_its_thread() -> None:
    before = len(engine_threads())
    smoothed = Smoothed(patches(), NOISE)
    smoothed.predict(images(1)[0], n=10)
    gone = weakref.ref(smoothed)
    del smoothed
    gc.collect()
    assert gone() is None
    assert len(engine_threads()) == before


def test_it_may_be_used_from_several_threads(smoothed: Smoothed) -> None:
    expected = smoothed.predict(images(1)[0], n=100, seed=0)
    found: list[list[int | None]] = []
    threads = [
        threading.Thread(target=lambda: found.append(smoothed.predict(images(1)[0], n=100, seed=0))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def in_a_fork(call: Callable[[], object]) -> str:
    """What a call returns or raises in a child of this process, as text; nothing if the child hangs."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn about a fork beside threads
        child = os.fork()
    if child == 0:
        signal.alarm(120)  # otherwise the parent would wait for ever, too
        try:
            text = str(call())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def test_in_a_fork_it_says_that_its_threads_are_gone(smoothed: Smoothed) -> None:
    """Mutant killed: without `_refuse_fork`, the child waits for ever."""
    image = images(1)[0]
    expected = smoothed.predict(image, n=100, seed=0)
    error = in_a_fork(lambda: smoothed.predict(image, n=100, seed=0))
    assert error.startswith(f"ForkedError: this Smoothed has been used in process {os.getpid()}, and process ")
    assert error.endswith("start processes by the method 'spawn', or fork before the first call")
    assert in_a_fork(smoothed.close) == "None"
    assert smoothed.predict(image, n=100, seed=0) == expected  # the parent goes on


def test_an_object_that_was_not_used_yet_may_be_forked(smoothed: Smoothed) -> None:
    image = images(1)[0]
    found = in_a_fork(lambda: smoothed.predict(image, n=100, seed=0))
    assert found == str(smoothed.predict(image, n=100, seed=0))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
@pytest.mark.parametrize("used", [False, True])
def test_a_copy_certifies_the_same(smoothed: Smoothed, copied: Callable[[Smoothed], Smoothed], used: bool) -> None:
    image = images(1)[0]
    before = smoothed.predict(image, n=100, seed=0) if used else None
    with copied(smoothed) as other:
        after = other.predict(image, n=100, seed=0)
        assert other._session._engine is not smoothed._session._engine
        assert repr(other) == repr(smoothed)
    assert after == (before or smoothed.predict(image, n=100, seed=0))
