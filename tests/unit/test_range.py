"""Two runs that count one draw: both parts together are the draw of one run, and parts that do not fit are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from smoothcert.engine import range as ranges
from smoothcert.engine.checkpoint import Checkpoint
from smoothcert.engine.engine import Engine
from smoothcert.engine.errors import CheckpointError
from smoothcert.engine.run import Sampled
from smoothcert.procedures import Procedure
from tests.support.engines import NOISE, draws, ensemble, images

SIZES = (40, 500, 60)
HELD = ensemble(k=3, consensus=1)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(HELD, batch=32) as running:
        yield running


def run(engine: Engine, procedure: Procedure, resume: Checkpoint | None = None) -> tuple[Sampled, Checkpoint]:
    """The end of a run, and its last checkpoint."""
    handle = engine.submit(procedure, images(1)[0], NOISE, "seed", resume=resume)
    sampled, checkpoint = handle.result(30), handle.checkpoint
    assert checkpoint is not None
    return sampled, checkpoint


def begun(engine: Engine) -> Checkpoint:
    """The checkpoint of a run of SIZES whose second draw is under way."""
    _, checkpoint = run(engine, ranges.counting(SIZES[0], 10))
    return ranges.reopened(checkpoint)


def parts(engine: Engine, start: int) -> tuple[Checkpoint, Checkpoint]:
    """The counts of two runs of the second draw, before the sample `start` and from it on."""
    checkpoint = begun(engine)
    _, front = run(engine, ranges.up_to(checkpoint, start), checkpoint)
    stop = sum(SIZES[:2])
    _, tail = run(engine, ranges.counting(start, stop - start), ranges.tail_of(checkpoint, start))
    return ranges.reopened(front), ranges.read(ranges.write(tail))


@pytest.mark.parametrize("start", [51, 300, 539])
def test_two_runs_count_a_draw_as_one_does(engine: Engine, start: int) -> None:
    whole, _ = run(engine, draws(*SIZES))
    again, _ = run(engine, draws(*SIZES), ranges.joined(*parts(engine, start)))
    assert replace(again, ended_at=whole.ended_at) == whole


def test_parts_that_do_not_fit_are_refused(engine: Engine) -> None:
    front, tail = parts(engine, 300)
    other, _ = parts(engine, 301)
    unfinished = ranges.tail_of(front, 300)
    foreign = replace(tail, of="another run")
    elsewhere = replace(tail, parts=(*tail.parts, replace(tail.parts[0], start=300, stream=1)))
    for first, second in ((other, tail), (front, unfinished), (front, foreign), (front, elsewhere)):
        with pytest.raises(CheckpointError, match="does not begin where"):
            ranges.joined(first, second)
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        ranges.read(b"[]")


def test_where_a_joined_draw_is_too_short_the_run_refuses_it(engine: Engine) -> None:
    checkpoint = begun(engine)
    _, front = run(engine, ranges.up_to(checkpoint, 300), checkpoint)
    _, tail = run(engine, ranges.counting(300, 100), ranges.tail_of(checkpoint, 300))
    with pytest.raises(CheckpointError, match="where the procedure asks for 500 samples"):
        run(engine, draws(*SIZES), ranges.joined(ranges.reopened(front), tail))
