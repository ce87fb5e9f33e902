"""A divided certification in a real server: its shards wait, run, die and end, and it ends once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer

from app.answers import certifications
from smoothcert.certification import Progress
from smoothcert.problem import Failure
from store import bookkeeping, division, keys, shards, waiting
from store.checkpoints import SavedCheckpoint
from store.commands import Call
from store.record import Record
from store.transitions import cancellation, endings, lease
from tests.support.stored import POOL, QUARANTINE, QUEUE, accepted, begun, call, finishing, private_server, read

NAME = "ab12"


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with private_server() as connected:
        yield connected


@pytest.fixture
def empty(client: Any) -> Any:
    client.flushall()
    return client


def look(client: Any, worker: str, *, under_way: tuple[str, ...] = ()) -> list[str]:
    """The work that a worker takes."""
    made = waiting.take(
        POOL,
        most=1,
        most_bytes=10**6,
        busy=bool(under_way),
        share=9,
        held={},
        under_way=under_way,
        idle=None if under_way else (worker, time.time() + 9),
    )
    return waiting.taken(client.eval(*made.arguments))[1]


def dividing(record: Record, name: str = NAME, *, given: tuple[int, ...] = (1, 3)) -> Call:
    kept = sorted(set(record.place_list) - set(given))
    return division.divide(
        record,
        record.execution,
        name,
        kept=kept,
        given=given,
        samples_kept=70,
        samples_given=30,
        further=True,
        now=time.time(),
    )


def shard_of(client: Any, record: Record, name: str = NAME) -> Record:
    found = Record.read(client.hgetall(keys.record(record.id)), name)
    assert found is not None
    return found


def divided(client: Any, **fields: Any) -> tuple[Record, Record]:
    """A certification of four images of which a worker gave two away, and the waiting shard of these two."""
    record = accepted(client, images=4, **fields)
    assert look(client, "w") == [record.id]
    begun(client, record)
    assert look(client, "v") == []
    assert call(client, dividing(read(client, record))) == (1, "running")
    return read(client, record), shard_of(client, record)


def taken(client: Any, record: Record, name: str = NAME) -> Record:
    """The shard, begun by the idle worker."""
    assert look(client, "v") == [f"{record.id}-{name}"]
    _, made = lease.begin(shard_of(client, record, name), "v", now=time.time(), ttl=100)
    assert call(client, made) == (1, "queued")
    return shard_of(client, record, name)


def ending(record: Record, status: str = "succeeded", **other: Any) -> Call:
    """The end of a shard, with all of its certificates."""
    fields = {"certificates": dict.fromkeys(record.place_list, "{}"), "end_tally": {"ends": 1}, **other}
    return finishing(record, record.execution, status, **fields)


def left_of_rq(client: Any, record: Record) -> list[bytes]:
    return [key for key in client.scan_iter("rq:*") if record.id.encode() in key]


def waiting_in_rq(client: Any) -> list[str]:
    return Queue(QUEUE, connection=client, serializer=JSONSerializer).get_job_ids()


@pytest.mark.parametrize("places", [[0], [0, 1, 2, 5], [3, 7, 8, 9], list(range(100))])
def test_places_are_read_as_they_were_written(places: list[int]) -> None:
    assert shards.read_places(shards.write_places(reversed(places)), 100) == places
    assert shards.read_places("", 3) == [0, 1, 2]


def test_a_shard_waits_as_a_certification_does_and_rq_sees_it(empty: Any) -> None:
    record, shard = divided(empty)
    assert (record.status, record.place_list, record.shards) == ("running", [0, 2], 2)
    assert (shard.status, shard.place_list, shard.execution, shard.samples_saved) == ("queued", [1, 3], "", 30)
    assert (shard.id, shard.name, shard.seed, shard.images) == (record.id, f"{record.id}-{NAME}", record.seed, 4)
    assert waiting_in_rq(empty) == [shard.name]
    begun_by = taken(empty, record)
    assert (begun_by.status, begun_by.worker, read(empty, record).worker) == ("running", "v", "w")
    assert waiting_in_rq(empty) == []
    registry = Queue(QUEUE, connection=empty, serializer=JSONSerializer).started_job_registry
    assert sorted(registry.get_job_ids(cleanup=False)) == [record.id, shard.name]
    assert Job.fetch(shard.name, connection=empty, serializer=JSONSerializer).worker_name == "v"


def test_nothing_is_divided_while_no_worker_is_idle(empty: Any) -> None:
    record = accepted(empty, images=4)
    assert look(empty, "w") == [record.id]  # it was idle until it took this
    begun(empty, record)
    before = empty.hgetall(keys.record(record.id))
    assert call(empty, dividing(read(empty, record))) == (0, "running")
    assert empty.hgetall(keys.record(record.id)) == before
    look(empty, "w")  # a worker does not divide its own work for itself
    assert call(empty, dividing(read(empty, record)))[0] == 0


def test_a_division_calls_one_idle_worker(empty: Any) -> None:
    record = accepted(empty, images=8)
    look(empty, "w")
    begun(empty, record)
    look(empty, "v")
    look(empty, "u")
    assert empty.execute_command(*division.count_idle(POOL, now=time.time())) == 2
    assert call(empty, dividing(read(empty, record)))[0] == 1
    called = [name for name in ("u", "v", "w") if empty.exists(keys.summons(name))]
    assert len(called) == 1
    assert empty.zrange(keys.idle(POOL), 0, -1) == [b"v" if called == ["u"] else b"u"]


def test_a_division_that_is_sent_twice_divides_once(empty: Any) -> None:
    record = accepted(empty, images=4)
    look(empty, "w")
    begun(empty, record)
    look(empty, "v")
    made = dividing(read(empty, record))
    assert call(empty, made)[0] == 1
    shard = taken(empty, record)
    assert call(empty, ending(shard))[0] == 1
    look(empty, "v")
    assert call(empty, made)[0] == 1
    assert read(empty, record).shards == 1
    assert waiting_in_rq(empty) == []


def test_a_worker_leaves_shards_of_what_it_has_to_others(empty: Any) -> None:
    record, shard = divided(empty)
    other = accepted(empty)
    assert look(empty, "w", under_way=(record.id,)) == [other.id]
    assert look(empty, "w", under_way=(record.id,)) == []
    assert look(empty, "w") == [shard.name]


@pytest.mark.parametrize("first", ["the certification", "the shard"])
def test_the_shard_that_ends_last_ends_the_certification(empty: Any, first: str) -> None:
    record, _ = divided(empty, webhook="https://a.example/", size=100, budget=50)
    shard = taken(empty, record)
    one, two = (record, shard) if first == "the certification" else (shard, record)
    assert call(empty, ending(one)) == (1, "running")
    between = read(empty, record)
    assert (between.status, between.done, between.shards) == ("running", 2, 1)
    assert not empty.exists(keys.delivery(record.id))
    assert empty.exists(keys.images(record.id))
    assert call(empty, ending(one))[0] == 0, "a shard ends once"
    assert call(empty, ending(two)) == (1, "running")
    ended = read(empty, record)
    assert (ended.status, ended.done) == ("succeeded", 4)
    assert empty.zcard(keys.arrivals(record.id)) == 4
    assert empty.zcard(keys.DELIVERIES) == 1
    assert left_of_rq(empty, record) == []
    assert not empty.exists(keys.images(record.id))
    assert [float(empty.hget(keys.STATISTICS, name)) for name in ("samples", "ends")] == [10, 1]
    assert [int(empty.hget(key, "me")) for key in (keys.BYTES, keys.SAMPLES)] == [0, 0]
    assert empty.llen(keys.finished(POOL)) == 1
    assert empty.hget(bookkeeping.worker_key("v"), "successful_job_count") == b"1"
    assert empty.hget(bookkeeping.worker_key("w"), "successful_job_count") == b"1"


def test_certificates_of_several_shards_arrive_one_after_the_other(empty: Any) -> None:
    record, _ = divided(empty)
    shard = taken(empty, record)
    for each, place in ((shard, 3), (record, 0), (shard, 1)):
        assert call(empty, lease.save(each, each.execution, certificates={place: "{}"}))[0] == 1
    assert empty.zrange(keys.arrivals(record.id), 0, -1) == [b"3", b"0", b"1"]
    again = lease.save(record, record.execution, certificates={0: "{}", 2: "{}"})
    call(empty, again)
    assert empty.zrange(keys.arrivals(record.id), 0, -1) == [b"3", b"0", b"1", b"2"]
    assert read(empty, record).done == 4


def test_a_shard_that_fails_ends_the_certification(empty: Any) -> None:
    record, _ = divided(empty)
    shard = taken(empty, record)
    look(empty, "u")
    assert call(empty, dividing(read(empty, record), "cd34", given=(2,)))[0] == 1
    error = Failure(code="engine_failed", detail="it broke")
    assert call(empty, ending(shard, "failed", certificates={}, error=error))[0] == 1
    assert (read(empty, record).status, shard_of(empty, record, "cd34").status) == ("failed", "failed")
    for late in (ending(record), lease.beat(record, record.execution, ttl=9)):
        assert call(empty, late) == (0, "failed")
    assert look(empty, "u") == []
    assert waiting_in_rq(empty) == []
    failed = Queue(QUEUE, connection=empty, serializer=JSONSerializer).failed_job_registry
    assert failed.get_job_ids(cleanup=False) == [record.id]
    assert not empty.zcard(keys.executions(QUEUE))
    assert not empty.zcard(bookkeeping.started_key(QUEUE))
    assert call(empty, cancellation.delete(read(empty, record)))[0] == 1
    assert left_of_rq(empty, record) == []


def test_to_cancel_ends_shards_that_run_and_shards_that_wait(empty: Any) -> None:
    record, _ = divided(empty)
    assert call(empty, cancellation.cancel_running(record))[0] == 1
    assert call(empty, dividing(read(empty, record), "cd34", given=(2,)))[0] == 0, "nothing is divided any more"
    assert call(empty, lease.beat(record, record.execution, ttl=9)) == (1, "canceling")
    assert call(empty, ending(record, "canceled", certificates={0: "{}"}))[0] == 1
    ended = read(empty, record)
    assert (ended.status, ended.done) == ("canceled", 1)
    assert look(empty, "v") == []
    assert left_of_rq(empty, record) == []


def test_a_shard_that_waits_alone_ends_what_was_canceled(empty: Any) -> None:
    record, shard = divided(empty)
    assert call(empty, ending(record)) == (1, "running")
    assert call(empty, cancellation.cancel_running(read(empty, record)))[0] == 1
    assert look(empty, "v") == [shard.name]
    _, made = lease.begin(shard_of(empty, record), "v", now=time.time(), ttl=9)
    assert call(empty, made) == (1, "canceling")
    assert call(empty, ending(shard_of(empty, record), "canceled", certificates={}))[0] == 1
    assert read(empty, record).status == "canceled"
    assert left_of_rq(empty, record) == []


def test_a_shard_whose_worker_died_is_the_only_one_that_waits_again(empty: Any) -> None:
    record, _ = divided(empty)
    shard = taken(empty, record)
    buried = lease.bury(shard, blamed=True, now=time.time(), ttl=60)
    assert call(empty, buried)[0] == 1
    again = shard_of(empty, record)
    assert (again.status, again.queue, again.deaths, again.burials) == ("queued", QUARANTINE, 1, 1)
    assert read(empty, record) == record
    assert call(empty, lease.beat(record, record.execution, ttl=9)) == (1, "running")
    assert call(empty, lease.save(shard, shard.execution, progress="late"))[0] == 0
    assert empty.lrange(bookkeeping.waiting_key(QUARANTINE), 0, -1) == [shard.name.encode()]
    empty.eval(*waiting.take_suspect(POOL).arguments)
    _, made = lease.begin(again, "u", now=time.time(), ttl=9)
    assert call(empty, made)[0] == 1
    second = lease.bury(shard_of(empty, record), blamed=True, now=time.time(), ttl=60)
    assert call(empty, second)[0] == 1
    ended = read(empty, record)
    assert ended.status == "failed"
    assert "worker_died" in ended.error
    assert not empty.zcard(keys.executions(QUEUE))


def test_while_the_first_shard_waits_the_others_go_on(empty: Any) -> None:
    record, _ = divided(empty)
    shard = taken(empty, record)
    handed = lease.hand_back(record, record.execution, samples=80, checkpoints={0: SavedCheckpoint("c")})
    assert call(empty, handed)[0] == 1
    assert read(empty, record).status == "queued"
    assert call(empty, lease.save(shard, shard.execution, certificates={1: "{}"})) == (1, "running")
    assert call(empty, ending(shard)) == (1, "running")
    assert look(empty, "v") == [record.id]
    begun(empty, record, "v")
    again = read(empty, record)
    assert again.place_list == [0, 2]
    assert call(empty, ending(again))[0] == 1
    assert read(empty, record).status == "succeeded"


def test_progress_is_that_of_all_shards(empty: Any) -> None:
    record, _ = divided(empty)
    shard = taken(empty, record)
    for each, samples in ((record, 10), (shard, 5)):
        shown = Progress(images_done=1, images_total=4, samples=samples, evaluations=2 * samples).model_dump_json()
        call(empty, lease.save(each, each.execution, progress=shown))
    whole = Progress.model_validate_json(certifications.progress(read(empty, record)))
    assert (whole.images_done, whole.images_total, whole.samples, whole.evaluations) == (2, 4, 15, 30)


# --- ranges of samples


def ranged(client: Any) -> tuple[Record, Record]:
    """A certification of one image, and a range of its samples that another worker has begun."""
    record = accepted(client, images=1, budget=100_000)
    assert look(client, "w") == [record.id]
    begun(client, record)
    assert look(client, "v") == []
    held = read(client, record)
    made = division.give_range(
        held, held.execution, NAME, place=0, start=50_000, stop=100_000, checkpoint="begins", now=time.time()
    )
    assert call(client, made) == (1, "running")
    assert client.execute_command(*division.read_range(record.id, NAME)) == b"begins"
    return read(client, record), taken(client, record)


def test_a_range_leaves_what_it_counted_and_ends_nothing(empty: Any) -> None:
    record, shard = ranged(empty)
    assert (record.shards, shard.place_list, shard.range, shard.first_sample) == (0, [0], "50000-100000", 50_000)
    ended = endings.end_range(shard, shard.execution, checkpoint="counted", credited=True)
    assert call(empty, ended) == (1, "running")
    assert call(empty, ended)[0] == 0
    assert read(empty, record) == record
    assert not [field for field in empty.hkeys(keys.record(record.id)) if b"/" in field]
    assert empty.execute_command(*division.read_range(record.id, NAME)) == b"counted"
    assert empty.hget(bookkeeping.worker_key("v"), "successful_job_count") == b"1"
    assert call(empty, ending(record))[0] == 1
    assert left_of_rq(empty, record) == []
    assert not empty.exists(keys.ranges(record.id))


@pytest.mark.parametrize("how", ["its worker died", "its worker leaves"])
def test_a_range_without_a_worker_is_forgotten(empty: Any, how: str) -> None:
    record, shard = ranged(empty)
    if how == "its worker died":
        made = lease.bury(shard, blamed=True, now=time.time(), ttl=60)
    else:
        made = lease.hand_back(shard, shard.execution, samples=9, checkpoints={})
    assert call(empty, made)[0] == 1
    assert empty.execute_command(*division.read_range(record.id, NAME)) is None
    assert look(empty, "v") == []
    assert read(empty, record) == record
    assert not empty.llen(bookkeeping.waiting_key(QUARANTINE))


def test_the_end_of_the_certification_ends_its_ranges(empty: Any) -> None:
    record, shard = ranged(empty)
    assert call(empty, ending(record))[0] == 1
    assert call(empty, lease.beat(shard, shard.execution, ttl=9)) == (0, "succeeded")
    assert call(empty, endings.end_range(shard, shard.execution, checkpoint="late"))[0] == 0
    assert left_of_rq(empty, record) == []
    assert not empty.exists(keys.ranges(record.id))
    assert not empty.zcard(keys.executions(QUEUE))
