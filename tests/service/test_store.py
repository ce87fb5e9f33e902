"""The life of a certification in a real server: RQ sees what we say, and no order of events loses one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer

from app.local.embedded import EmbeddedServer
from smoothcert.problem import Failure
from store import bookkeeping, keys, waiting
from store.checkpoints import SavedCheckpoint
from store.record import Record
from store.statistics import SECONDS, bucket, histogram
from store.transitions import admission, cancellation, lease
from store.transitions.admission import Limits
from tests.support.stored import (
    MANY,
    POOL,
    QUARANTINE,
    QUEUE,
    accepted,
    begun,
    call,
    finishing,
    new,
    private_server,
    read,
    taken,
)

SAVED = {0: SavedCheckpoint("c", {0: "d"})}


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with private_server() as connected:
        yield connected


@pytest.fixture
def empty(client: Any) -> Any:
    client.flushall()
    return client


def rq_queue(client: Any) -> Queue:
    return Queue(QUEUE, connection=client, serializer=JSONSerializer)


def test_a_record_is_read_as_it_was_written(empty: Any) -> None:
    record = new(deadline_at=12.5, deaths=1, error="é")
    empty.hset(keys.record(record.id), mapping=record.mapping())
    assert read(empty, record) == record
    assert Record.read({}) is None


def test_rq_finds_the_job_in_its_queue(empty: Any) -> None:
    first, second = accepted(empty), accepted(empty)
    urgent = new()
    call(empty, admission.accept(urgent, b"", MANY, idempotency=None, high=True))
    assert rq_queue(empty).get_job_ids() == [urgent.id, first.id, second.id]
    job = Job.fetch(first.id, connection=empty, serializer=JSONSerializer)
    assert (job.func_name, job.args, job.get_status()) == (bookkeeping.FUNCTION, [first.id], "queued")
    bookkeeping.check(empty.hgetall(bookkeeping.job_key(first.id)), first.id)
    with pytest.raises(bookkeeping.ForeignJobError, match=second.id):
        bookkeeping.check(empty.hgetall(bookkeeping.job_key(second.id)), first.id)


def test_rq_sees_an_execution_from_its_beginning_to_its_end(empty: Any) -> None:
    record = accepted(empty)
    execution = begun(empty, record)
    registry = rq_queue(empty).started_job_registry
    assert registry.get_job_ids(cleanup=False) == [record.id]
    job = Job.fetch(record.id, connection=empty, serializer=JSONSerializer)
    assert (job.get_status(), job.worker_name) == ("started", "w")
    assert [each.id for each in job.get_executions()] == [execution]
    assert empty.llen(bookkeeping.taken_key(QUEUE)) == 0
    empty.zadd(registry.key, {f"{record.id}:{execution}": 5})
    for command in bookkeeping.beat(record.id, QUEUE, execution, ttl=50):
        empty.execute_command(*command)
    assert empty.zscore(registry.key, f"{record.id}:{execution}") > time.time() + 40
    assert call(empty, finishing(record, execution))[0] == 1
    assert registry.get_job_ids(cleanup=False) == []
    assert not [key for key in empty.scan_iter() if key.startswith(b"rq:") and record.id.encode() in key]


def test_rq_keeps_a_failed_job_for_a_day(empty: Any) -> None:
    record = accepted(empty)
    error = Failure(code="engine_failed", detail="it broke")
    assert call(empty, finishing(record, begun(empty, record), "failed", error=error))[0] == 1
    assert rq_queue(empty).failed_job_registry.get_job_ids(cleanup=False) == [record.id]
    job = Job.fetch(record.id, connection=empty, serializer=JSONSerializer)
    assert job.get_status() == "failed"
    assert "it broke" in (job.latest_result().exc_string or "")
    assert 0 < empty.ttl(job.key) <= bookkeeping.FAILURE_TTL


def test_a_heartbeat_does_not_bring_back_an_execution_that_was_ended(empty: Any) -> None:
    record = accepted(empty)
    execution = begun(empty, record)
    call(empty, lease.bury(read(empty, record), blamed=True, now=time.time(), ttl=60))
    for command in bookkeeping.beat(record.id, QUEUE, execution, ttl=50):
        empty.execute_command(*command)
    assert empty.zcard(bookkeeping.started_key(QUEUE)) == 0


def test_a_heartbeat_that_comes_after_the_end_leaves_nothing_behind(empty: Any) -> None:
    record = accepted(empty)
    execution = begun(empty, record)
    assert call(empty, lease.beat(record, execution, ttl=50)) == (1, "running")
    assert call(empty, finishing(record, execution))[0] == 1
    assert call(empty, lease.beat(record, execution, ttl=50)) == (0, "succeeded")
    assert not [key for key in empty.scan_iter() if key.startswith(b"rq:") and record.id.encode() in key]


def test_nothing_is_left_of_a_failed_certification_that_is_deleted(empty: Any) -> None:
    record = accepted(empty)
    error = Failure(code="engine_failed", detail="it broke")
    assert call(empty, finishing(record, begun(empty, record), "failed", error=error))[0] == 1
    assert call(empty, cancellation.delete(read(empty, record)))[0] == 1
    assert rq_queue(empty).failed_job_registry.get_job_ids(cleanup=False) == []
    assert not [key for key in empty.scan_iter() if record.id.encode() in key]


def test_the_first_final_status_wins(empty: Any) -> None:
    record = accepted(empty)
    execution = begun(empty, record)
    assert call(empty, finishing(record, execution)) == (1, "running")
    before = empty.hgetall(keys.record(record.id)), empty.hgetall(keys.STATISTICS)
    for late in (
        finishing(record, execution, "failed"),
        lease.save(record, execution, progress="late", certificates={1: "late"}),
        lease.hand_back(record, execution, samples=1, checkpoints={0: SavedCheckpoint("late")}),
        lease.bury(read(empty, record), blamed=True, now=1.0, ttl=1),
        cancellation.cancel_running(read(empty, record)),
        cancellation.cancel_waiting(read(empty, record), now=1.0, ttl=1),
        lease.begin(read(empty, record), "other", now=1.0, ttl=1)[1],
    ):
        assert call(empty, late) == (0, "succeeded")
    assert (empty.hgetall(keys.record(record.id)), empty.hgetall(keys.STATISTICS)) == before
    assert empty.hgetall(keys.certificates(record.id)) == {b"0": b"{}"}


def test_only_the_execution_under_way_may_write(empty: Any) -> None:
    record = accepted(empty)
    old = begun(empty, record)
    call(empty, lease.bury(read(empty, record), blamed=True, now=time.time(), ttl=60))
    execution = begun(empty, record, "other")
    assert call(empty, lease.save(record, old, progress="old")) == (0, "running")
    assert call(empty, finishing(record, old)) == (0, "running")
    assert read(empty, record).progress == ""
    assert call(empty, lease.save(record, execution, progress="new")) == (1, "running")


def test_a_worker_that_stood_still_does_not_begin_what_was_put_back(empty: Any) -> None:
    """Mutants killed: the worker begins, and the certification waits and runs at the same time; what the next worker
    took is dropped, because it had begun when it was looked at.
    """
    record = accepted(empty)
    stale = taken(empty, record)
    assert call(empty, lease.put_back(stale)) == (1, "queued")
    assert call(empty, lease.begin(stale, "w", now=time.time(), ttl=100)[1]) == (0, "queued")
    assert call(empty, lease.put_back(stale)) == (0, "queued")
    execution = begun(empty, record, "other")
    assert call(empty, lease.hand_back(read(empty, record), execution, samples=0, checkpoints={})) == (1, "running")
    taken(empty, record)
    assert call(empty, lease.drop(record.id, QUEUE)) == (0, "queued")
    assert empty.lrange(bookkeeping.taken_key(QUEUE), 0, -1) == [record.id.encode()]
    assert call(empty, lease.begin(read(empty, record), "w", now=time.time(), ttl=100)[1]) == (1, "queued")
    empty.rpush(bookkeeping.taken_key(QUEUE), record.id)
    assert call(empty, lease.drop(record.id, QUEUE)) == (1, "running")
    assert empty.llen(bookkeeping.taken_key(QUEUE)) == 0


def test_a_call_that_comes_twice_changes_nothing_more(empty: Any) -> None:
    record = accepted(empty)
    execution = begun(empty, record)
    saved = lease.save(record, execution, progress="p", samples=7, certificates={1: "c"})
    call(empty, saved)
    once = {key: empty.dump(key) for key in empty.scan_iter()}
    call(empty, saved)
    assert {key: empty.dump(key) for key in empty.scan_iter()} == once


def test_a_second_death_without_progress_is_the_end(empty: Any) -> None:
    record = accepted(empty)
    begun(empty, record)
    call(empty, lease.bury(read(empty, record), blamed=True, now=time.time(), ttl=60))
    seen = read(empty, record)
    assert (seen.status, seen.queue, seen.deaths) == ("queued", QUARANTINE, 1)
    begun(empty, record)
    call(empty, lease.bury(read(empty, record), blamed=True, now=time.time(), ttl=60))
    seen = read(empty, record)
    assert seen.status == "failed"
    assert Failure.model_validate_json(seen.error).code == "worker_died"


def test_deaths_do_not_count_for_who_came_further_or_is_not_to_blame(empty: Any) -> None:
    record = accepted(empty)
    for samples in (10, 20, 30):
        execution = begun(empty, record)
        call(empty, lease.save(read(empty, record), execution, samples=samples, checkpoints=SAVED))
        call(empty, lease.bury(read(empty, record), blamed=True, now=time.time(), ttl=60))
        assert (read(empty, record).status, read(empty, record).deaths) == ("queued", 0)
    for _ in range(3):
        begun(empty, record)
        call(empty, lease.bury(read(empty, record), blamed=False, now=time.time(), ttl=60))
        assert (read(empty, record).status, read(empty, record).queue) == ("queued", QUEUE)


def test_nobody_outlives_workers_for_ever(empty: Any) -> None:
    record = accepted(empty)
    for burials in range(lease.MOST_BURIALS):
        assert (read(empty, record).status, read(empty, record).burials) == ("queued", burials)
        execution = begun(empty, record)
        call(empty, lease.save(read(empty, record), execution, samples=burials + 1, checkpoints=SAVED))
        call(empty, lease.bury(read(empty, record), blamed=True, now=time.time(), ttl=60))
    seen = read(empty, record)
    assert seen.status == "failed"
    assert Failure.model_validate_json(seen.error).detail == "10 workers died with this certification"


def test_what_is_put_back_twice_waits_once(empty: Any) -> None:
    record = accepted(empty)
    for _ in range(2):
        call(empty, lease.put_back(read(empty, record)))
    assert empty.lrange(bookkeeping.waiting_key(QUEUE), 0, -1) == [record.id.encode()]


def test_a_key_is_taken_once(empty: Any) -> None:
    first, second = new(), new()
    place = keys.idempotency("me", "key")

    def accept(record: Record, digest: str) -> tuple[Any, str]:
        return call(empty, admission.accept(record, b"", MANY, idempotency=(place, digest), high=False))

    assert accept(first, "a")[0] == b"accepted"
    assert accept(second, "a") == (b"replay", first.id)
    assert accept(second, "b") == (b"conflict", first.id)
    assert not empty.exists(keys.record(second.id))
    call(empty, cancellation.cancel_waiting(read(empty, first), now=time.time(), ttl=60))
    call(empty, cancellation.delete(read(empty, first)))
    assert accept(second, "a") == (b"gone", first.id)
    assert accept(second, "b") == (b"conflict", first.id)
    assert 60 < empty.ttl(place) <= 120  # as long as the record would have been kept


def test_a_submission_that_is_sent_twice_is_taken_in_once(empty: Any) -> None:
    record = new()
    sent = admission.accept(record, b"", Limits(waiting=1, active=1), idempotency=("k", "digest"), high=False)
    assert [call(empty, sent)[0] for _ in range(2)] == [b"accepted", b"accepted"]
    assert empty.lrange(bookkeeping.waiting_key(QUEUE), 0, -1) == [record.id.encode()]


def test_what_is_too_much_is_not_taken_in(empty: Any) -> None:
    accepted(empty)
    accepted(empty)
    third = new()

    def accept(limits: Limits) -> tuple[Any, str]:
        return call(empty, admission.accept(third, b"", limits, idempotency=None, high=False))

    assert accept(Limits(waiting=2, active=10)) == (b"full", "2")
    assert accept(Limits(waiting=10, active=2)) == (b"busy", "2")
    assert not empty.exists(keys.record(third.id), keys.images(third.id), bookkeeping.job_key(third.id))
    assert accept(Limits(waiting=3, active=3))[0] == b"accepted"


def test_statistics_are_counted_with_the_end(empty: Any) -> None:
    record = accepted(empty)
    tally = {"certifications:succeeded": 1, "samples": 12, "nothing": 0, **bucket("wait", 0.2)}
    call(empty, finishing(record, begun(empty, record), tally=tally))
    counters = {name.decode(): float(value) for name, value in empty.hgetall(keys.STATISTICS).items()}
    assert counters == {"certifications:succeeded": 1, "samples": 12, "wait:sum": 0.2, "wait:bucket:3": 1}
    cumulative, total = histogram("wait", counters)
    assert total == 0.2
    assert [count for end, count in cumulative] == [0, 0, 0] + [1] * (len(SECONDS) - 2)


class Life(RuleBasedStateMachine):
    """Workers begin, save, die, hand back, finish and return from the dead, in any order; clients cancel."""

    server: EmbeddedServer
    client: Any

    queued = Bundle("queued")
    running = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.client.flushall()
        self.final: dict[str, str] = {}
        self.records: list[Record] = []

    @rule(target=queued)
    def accept(self) -> Record:
        record = accepted(self.client, budget=100)
        self.records.append(record)
        return record

    @rule(target=running, record=queued, worker=st.sampled_from("ab"))
    def begin(self, record: Record, worker: str) -> tuple[Record, str]:
        """Take it from where it waits and begin it, as a worker does."""
        execution, made = lease.begin(taken(self.client, record), worker, now=time.time(), ttl=100)
        call(self.client, made)
        return record, execution

    @rule(target=running, worker=st.sampled_from("ab"))
    def look(self, worker: str) -> Any:
        """Take what waits first and begin it, in one call."""
        made = lease.beginning(QUEUE, worker, now=time.time(), ttl=100)
        fields: dict[str, Any] = {"most_bytes": 100, "busy": False, "share": 9, "held": {}, "holds": ["e"]}
        answer = self.client.eval(*waiting.take(POOL, most=1, begin=made.commands, **fields).arguments)
        names = waiting.taken(answer)[1]
        return multiple(*((record, made.execution) for record in self.records if record.id in names))

    @rule(work=running, samples=st.integers(1, 100))
    def save(self, work: tuple[Record, str], samples: int) -> None:
        record, execution = work
        call(self.client, lease.save(record, execution, samples=samples, checkpoints=SAVED, progress="{}"))

    @rule(work=running, status=st.sampled_from(["succeeded", "failed", "canceled"]))
    def finish(self, work: tuple[Record, str], status: str) -> None:
        record, execution = work
        error = Failure(code="internal", detail="x") if status == "failed" else None
        call(self.client, finishing(read(self.client, record), execution, status, error=error))

    @rule(work=consumes(running))
    def hand_back(self, work: tuple[Record, str]) -> None:
        record, execution = work
        now = read(self.client, record)
        call(self.client, lease.hand_back(now, execution, samples=now.samples_saved, checkpoints={}))

    @rule(record=queued, blamed=st.booleans())
    def bury(self, record: Record, blamed: bool) -> None:
        now = read(self.client, record)
        if now.execution:
            call(self.client, lease.bury(now, blamed=blamed, now=time.time(), ttl=60))

    @rule(record=queued)
    def cancel(self, record: Record) -> None:
        now = read(self.client, record)
        call(self.client, cancellation.cancel_waiting(now, now=time.time(), ttl=60))
        call(self.client, cancellation.cancel_running(now))

    @rule(record=queued)
    def put_back(self, record: Record) -> None:
        """A late janitor that saw the id among those taken puts it back."""
        now = read(self.client, record)
        call(self.client, lease.put_back(now))

    @invariant()
    def what_is_counted_is_what_is_active(self) -> None:
        active = [now for record in self.records if not (now := read(self.client, record)).ended]
        for key, total in ((keys.BYTES, 6 * len(active)), (keys.SAMPLES, 100 * len(active))):
            assert int(self.client.hget(key, "me") or 0) == total

    @invariant()
    def a_certification_is_in_one_place_until_it_has_ended_and_then_in_none(self) -> None:
        for record in self.records:
            now = read(self.client, record)
            places = [
                name
                for name in (QUEUE, QUARANTINE)
                for entry in self.client.lrange(bookkeeping.waiting_key(name), 0, -1)
                if entry.decode() == record.id
            ]
            in_lane = self.client.zscore(keys.waiting(POOL, "me"), record.id) is not None
            assert in_lane == (QUEUE in places)
            started = [
                entry.decode().split(":")[1]
                for name in (QUEUE, QUARANTINE)
                for entry in self.client.zrange(bookkeeping.started_key(name), 0, -1)
                if entry.decode().startswith(record.id)
            ]
            active = self.client.zscore(keys.active("me"), record.id) is not None
            if now.ended:
                assert (places, started, active) == ([], [], False)
                assert self.final.setdefault(record.id, now.status) == now.status
                assert self.client.ttl(keys.record(record.id)) > 0
                assert not self.client.exists(*(key(record.id) for key in (keys.images, keys.checkpoints, keys.draws)))
            elif now.status == "queued":
                assert (places, started, active) == ([now.queue], [], True)
            else:
                assert (places, started, active) == ([], [now.execution], True)


def test_in_any_order_of_events_nothing_is_lost_and_nothing_is_twice(client: Any) -> None:
    Life.client = client
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    Life.TestCase.settings = settings(
        max_examples=60, stateful_step_count=20, deadline=None, suppress_health_check=slow
    )
    Life.TestCase("runTest").runTest()
