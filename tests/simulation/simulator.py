"""Plays histories one after the other, many at a time, and in several processes."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context

from store import shards
from tests.simulation.engine import LookingUp
from tests.simulation.history import Outcome, play
from tests.simulation.server import DATABASES, Database, private_server
from tests.simulation.stage import staged

COLLECT = 100
"""The number of histories between two garbage collections; with Python's own moments it takes a tenth longer."""
LOT = 200
"""The number of histories that a process plays before it reports; each lot starts its own server."""


def simulate(seeds: Iterable[str], tell: Callable[[Outcome], None], *, at_a_time: int = DATABASES) -> None:
    """Play the history of each seed, and report its result."""

    def playing(seed: str) -> Callable[[Database], None]:
        return lambda database: tell(play(seed, database))

    with quiet(), private_server() as server, staged(LookingUp), small_ranges():
        server.each((playing(seed) for seed in collecting(seeds)), at_a_time=at_a_time)


def simulate_in_processes(seeds: Sequence[str], tell: Callable[[Outcome], None], *, jobs: int) -> None:
    """The same as `simulate`, in several processes, without the notes of histories in which nothing is wrong."""
    lots = [seeds[at : at + LOT] for at in range(0, len(seeds), LOT)]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            for lot in as_completed([pool.submit(_outcomes, lot) for lot in lots]):
                for outcome in lot.result():
                    tell(outcome)
        finally:
            pool.shutdown(cancel_futures=True)


def _outcomes(seeds: Sequence[str]) -> list[Outcome]:
    found: list[Outcome] = []
    simulate(seeds, lambda outcome: found.append(outcome if outcome.wrong else replace(outcome, notes=[])))
    return found


@contextmanager
def small_ranges() -> Iterator[None]:
    """A context in which samples of an image are given away although they are few."""
    usual, shards.LEAST_RANGE = shards.LEAST_RANGE, 400
    try:
        yield
    finally:
        shards.LEAST_RANGE = usual


def collecting(seeds: Iterable[str]) -> Iterator[str]:
    for number, seed in enumerate(seeds):
        if number % COLLECT == 0:
            gc.collect()
        yield seed


@contextmanager
def quiet() -> Iterator[None]:
    """A context in which the service logs nothing, because expected trouble would fill the screen."""
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
        logging.disable(logging.NOTSET)
