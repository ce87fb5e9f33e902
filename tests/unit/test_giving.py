"""What a worker gives to an idle one: images with their counts, and samples of an image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from smoothcert.certificate import Certificate
from smoothcert.engine import range as ranges
from smoothcert.engine.engine import Engine
from store import shards
from tests.support.engines import until
from tests.support.pool import without_times
from tests.unit.test_jobs import HELD, begin, finish, stored
from workers.halves import Half
from workers.jobs import Stored
from workers.work import Work

LONG = {"procedure": {"name": "fixed", "n": 4_000_000}, "radius": None}
HALVED = {"procedure": {"name": "fixed", "n": 40_000}, "radius": None}


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(HELD) as running:
        yield running


def of(given: Stored, **fields: Any) -> Stored:
    return replace(given, record=replace(given.record, **fields))


def test_every_second_image_is_given_away(engine: Engine) -> None:
    work, _ = begin(engine, stored(5, request=LONG))
    until(lambda: all(each.handle.progress.samples for each in work.live.values()))
    given = work.spare
    assert len(given) == 2
    cases = [work.live[index] for index in given]
    kept = sorted(set(range(5)) - set(given))
    work.give(given, kept=shards.write_places(kept), samples=7)
    assert sorted(work.live) == kept == work.record.place_list
    assert all(case.handle.canceled for case in cases)
    assert not any(case.handle.canceled for case in work.live.values())
    work.cancel()


def test_a_work_that_came_further_is_still_further_after_it_gave_images_away(engine: Engine) -> None:
    work, _ = begin(engine, stored(2, request=LONG))
    work.samples_saved = 100
    assert work.further
    work.give([1], kept="0", samples=30)
    assert work.further
    assert (work.samples_saved, work.record.samples_saved) == (30, 29)
    other, _ = begin(engine, stored(2, request=LONG))
    other.give([1], kept="0", samples=0)
    assert not other.further
    for each in (work, other):
        each.cancel()


@pytest.mark.parametrize("change", [{"deaths": 1}, {"range": "5-9"}])
def test_suspects_and_ranges_give_nothing_away(engine: Engine, change: dict[str, Any]) -> None:
    work, _ = begin(engine, stored(3, request=LONG))
    assert work.spare
    work.record = replace(work.record, **change)
    assert not work.spare
    work.record = replace(work.record, **dict.fromkeys(change, 0))
    work.cancel()
    assert not work.spare


def test_of_a_single_image_nothing_is_given_away(engine: Engine) -> None:
    work, _ = begin(engine, stored(1, request=LONG))
    assert not work.spare
    assert work.spare_half("x") is None, "the budget is small"
    work.cancel()


def halved(engine: Engine) -> tuple[Work, list[int], Half, Stored]:
    """A work that gave the samples of a half away, and what another worker finds of them."""
    given = of(stored(1, request=HALVED), budget=40_100)
    work, ended = begin(engine, given)
    until(lambda: work.spare_half("ab") is not None)
    found = work.spare_half("ab")
    assert found is not None
    index, half = found
    checkpoint = work.live[index].handle.checkpoint
    assert checkpoint is not None
    work.halve(index, half)
    tail = ranges.write(ranges.tail_of(checkpoint, half.start)).encode()
    return work, ended, half, replace(of(given, shard="ab", range=half.offered), counted=tail)


def whole(engine: Engine, given: Stored) -> dict[str, object]:
    work, ended = begin(engine, of(given, shard="", range=""))
    finish(work, ended)
    return certificate(work)


def certificate(work: Work) -> dict[str, object]:
    return without_times(Certificate.from_json(work.finished[0].text))


def absorb_all(work: Work, ended: list[int]) -> None:
    """Do what the clerk does until no image is under way."""

    def step() -> bool:
        while ended and work.live:
            work.absorb(ended.pop())
        return not work.live

    until(step)


@pytest.mark.parametrize("first", ["this worker", "the other worker"])
def test_the_parts_of_two_workers_make_the_same_certificate(engine: Engine, first: str) -> None:
    work, ended, half, given = halved(engine)
    if first == "this worker":
        until(lambda: len(ended) > 1)  # the run that was replaced, and the front
        while ended:
            work.absorb(ended.pop())
        assert half.front is not None
    other, others = begin(engine, given)
    absorb_all(other, others)
    assert other.counted is not None
    assert other.samples == half.stop - half.start
    if work.halves:
        work.receive(0, ranges.write(other.counted).encode())
    absorb_all(work, ended)
    assert certificate(work) == whole(engine, given)


def test_an_image_does_not_wait_for_a_worker_that_is_never_done(engine: Engine) -> None:
    work, ended, _, given = halved(engine)
    absorb_all(work, ended)
    assert certificate(work) == whole(engine, given)


def test_a_range_that_cannot_be_used_is_left_alone(engine: Engine) -> None:
    work, ended, half, given = halved(engine)
    work.receive(0, b"nonsense")
    assert half.lost
    absorb_all(work, ended)
    assert work.status == "succeeded"
    # The run stopped where the range begins; without it, the image must still come to its end.
    assert certificate(work) == whole(engine, given)


def test_a_range_of_a_machine_of_another_kind_is_not_drawn(engine: Engine) -> None:
    work, _, _, given = halved(engine)
    work.cancel()
    assert given.counted is not None
    other, _ = begin(engine, replace(given, counted=given.counted.replace(b"float32", b"float16")))
    assert other.failure is not None
    assert "another kind" in other.failure.detail
