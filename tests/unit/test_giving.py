"""What a worker gives to an idle worker: images with their counts, and samples of an image."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from smoothcert.certificate import Certificate
from smoothcert.counts import SampleCounts
from smoothcert.engine import range as ranges
from smoothcert.engine.engine import Engine
from store import shards
from tests.support.engines import until
from tests.support.pool import without_times
from tests.unit.test_jobs import HELD, begin, finish, stored
from workers.jobs import Stored
from workers.lending import LENT, Lent
from workers.work import Work

LONG = {"procedure": {"name": "fixed", "n": 4_000_000}, "radius": None}


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lend samples although they are few, so that the tests are short."""
    monkeypatch.setattr(shards, "LEAST_RANGE", 2_000)


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
    assert work.spare_samples("x") is None, "the budget is small"
    work.cancel()


def lend(work: Work, name: str, given: Stored) -> tuple[Lent, Stored]:
    """Let go of samples; returns what another worker finds of them."""
    until(lambda: work.spare_samples(name) is not None)
    found = work.spare_samples(name)
    assert found is not None
    index, lent = found
    work.lend(index, lent)
    return lent, replace(of(given, shard=name, range=lent.offered), counted=ranges.write(lent.begins).encode())


def shared(engine: Engine, samples: int = 40_000) -> tuple[Work, list[int], Lent, Stored]:
    """A work that lent samples, and what another worker finds of them."""
    request = {"procedure": {"name": "fixed", "n": samples}, "radius": None}
    given = of(stored(1, request=request), budget=samples + 100)
    work, ended = begin(engine, given)
    return work, ended, *lend(work, "ab", given)


def counted_by_another(engine: Engine, given: Stored) -> bytes:
    """What another worker leaves in Redis of the samples that it was lent."""
    other, others = begin(engine, given)
    absorb_all(other, others)
    assert other.counted is not None
    first, last = map(int, given.record.range.split("-"))
    assert other.samples == last - first
    return ranges.write(other.counted).encode()


def whole(engine: Engine, given: Stored) -> dict[str, object]:
    work, ended = begin(engine, of(given, shard="", range=""))
    finish(work, ended)
    return certificate(work)


def certificate(work: Work) -> dict[str, object]:
    return without_times(Certificate.from_json(work.finished[0].text))


def absorb_all(work: Work, ended: list[int]) -> None:
    """Do what the clerk does until no image is under way."""
    absorb_until(work, ended, lambda: not work.live)


def absorb_until(work: Work, ended: list[int], true: Callable[[], bool]) -> None:
    def step() -> bool:
        while ended and work.live and not true():
            work.absorb(ended.pop())
        return true()

    until(step)


def test_a_part_that_has_come_to_its_end_is_not_saved_as_a_complete_draw(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, ended, lent, _ = shared(engine)
    until(lambda: len(ended) > 1)
    handle = work.live[0].handle
    monkeypatch.setattr(handle.future, "done", lambda: False)  # this is so for a moment after the last checkpoint
    assert handle.checkpoint is not None
    assert len(handle.checkpoint.draws) > lent.draws
    assert work.checkpoints() == {}


@pytest.mark.parametrize("first", ["this worker", "the other worker"])
def test_the_parts_of_two_workers_make_the_same_certificate(engine: Engine, first: str) -> None:
    work, ended, _, given = shared(engine)
    if first == "this worker":
        until(lambda: len(ended) > 1)  # the run that was replaced, and the front
        while ended:
            work.absorb(ended.pop())
        assert work.shared[0].front is not None
    counted = counted_by_another(engine, given)
    if work.shared:
        work.receive(0, counted)
    absorb_all(work, ended)
    assert certificate(work) == whole(engine, given)


def test_a_draw_is_lent_again_once_the_first_part_has_been_counted(engine: Engine) -> None:
    work, ended, first, given = shared(engine)
    assert work.spare_samples("cd") is None, "one worker helps an image at a time"
    work.receive(0, counted_by_another(engine, given))
    second, again = lend(work, "cd", given)
    assert second.stop == first.start
    assert 0 < second.stop - second.start < LENT * first.start
    work.receive(0, counted_by_another(engine, again))
    tail = work.shared[0].tail
    assert tail is not None
    assert (work.shared[0].end, tail.samples) == (second.start, first.stop)
    absorb_all(work, ended)
    assert certificate(work) == whole(engine, given)


@pytest.mark.parametrize("when", ["before this worker is there", "when this worker is there"])
def test_where_the_second_part_is_lost_the_first_one_is_kept(engine: Engine, when: str) -> None:
    work, ended, first, given = shared(engine)
    work.receive(0, counted_by_another(engine, given))
    lend(work, "cd", given)
    if when == "when this worker is there":
        absorb_until(work, ended, lambda: work.shared[0].front is not None)
    work.receive(0, None)
    assert work.spare_samples("ef") is None, "it may be what killed a worker"
    absorb_until(work, ended, lambda: not work.shared)
    assert work.live[0].handle.progress.samples == first.stop
    absorb_all(work, ended)
    assert certificate(work) == whole(engine, given)


def test_an_image_does_not_wait_for_a_worker_that_is_never_done(engine: Engine) -> None:
    work, ended, _, given = shared(engine)
    absorb_all(work, ended)
    assert certificate(work) == whole(engine, given)


@pytest.mark.parametrize("left", [b"nonsense", None, "of other samples", "of too few samples", "of another image"])
def test_a_range_that_cannot_be_used_is_left_alone(engine: Engine, left: bytes | str | None) -> None:
    work, ended, _, given = shared(engine, 20_000)
    if isinstance(left, str):
        counted = ranges.read(counted_by_another(engine, given))
        first, second = counted.draws
        others = {
            "of other samples": replace(counted, draws=(second, first)),
            "of too few samples": replace(counted, draws=(first, SampleCounts(second.pairs[:1]))),
            "of another image": replace(counted, of="x"),
        }
        left = ranges.write(others[left]).encode()
    work.receive(0, left)
    assert work.spare_samples("cd") is None
    absorb_all(work, ended)
    assert work.status == "succeeded"
    assert work.alone == {0}
    # The run stopped where the range begins; the image must still reach its end without it.
    assert certificate(work) == whole(engine, given)


def test_a_range_of_a_machine_of_another_kind_is_not_drawn(engine: Engine) -> None:
    work, _, _, given = shared(engine)
    work.cancel()
    assert given.counted is not None
    other, _ = begin(engine, replace(given, counted=given.counted.replace(b"float32", b"float16")))
    assert other.failure is not None
    assert "another kind" in other.failure.detail
