"""What an undisturbed worker answers, and what it refuses."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer

from app.local.embedded import EmbeddedServer
from smoothcert.certification import Progress
from smoothcert.noise import Gaussian
from smoothcert.procedures import Sequential
from smoothcert.question import Question
from smoothcert.verification import verify
from store import bookkeeping, keys
from store.record import Record
from store.transitions import cancellation
from store.waiting import ANONYMOUS
from tests.support.pool import LONG, SEED, Pool, flat, wait_until, without_times
from tests.support.undisturbed import undisturbed
from tests.support.worker_networks import BREAK
from tests.support.zoo import ALLOWED, SIGMA
from workers.connection import RedisConnection
from workers.errors import ClockError
from workers.holdings import Holdings
from workers.settings import WorkerSettings
from workers.worker import CertificationWorker


def test_a_certificate_from_the_queue_is_that_of_the_engine(steady: Pool, zoo: Path) -> None:
    job = steady.submit(flat(0.51), seed=SEED)
    assert steady.ended(job).status == "succeeded"
    (certificate,) = steady.certificates(job)
    expected = undisturbed(zoo, "trivial", Question(Gaussian(SIGMA), Sequential(), radius=0.02), 0.51)
    assert without_times(certificate) == expected
    assert verify(certificate)


def test_family_wise_shares_alpha_among_the_images(steady: Pool) -> None:
    job = steady.submit(flat(0.9, 4), family_wise=True)
    assert steady.ended(job).status == "succeeded"
    certificates = steady.certificates(job)
    assert [each.index for each in certificates] == [0, 1, 2, 3]
    assert {each.alpha for each in certificates} == {0.001 / 4}
    assert all(map(verify, certificates))


def test_what_has_ended_leaves_nothing_that_stays_for_ever(steady: Pool) -> None:
    job = steady.submit(flat(0.9))
    steady.ended(job)
    left = {key for key in steady.redis.scan_iter() if job.encode() in key}
    assert left == {keys.record(job).encode(), keys.certificates(job).encode(), keys.arrivals(job).encode()}
    assert all(steady.redis.ttl(key) > 0 for key in left)
    assert steady.redis.zscore(keys.active(ANONYMOUS), job) is None
    for name in (bookkeeping.queue_name("steady"), bookkeeping.quarantine_name("steady")):
        assert steady.redis.llen(bookkeeping.waiting_key(name)) == 0
        assert steady.redis.llen(bookkeeping.taken_key(name)) == 0
        assert steady.redis.zcard(bookkeeping.started_key(name)) == 0


def test_an_image_that_breaks_the_network_fails_alone(steady: Pool) -> None:
    beside = [steady.submit(flat(0.9), "moody", procedure={"name": "fixed", "n": 2_000}) for _ in range(3)]
    broken = steady.submit(flat(BREAK), "moody")
    record = steady.ended(broken)
    assert [steady.ended(each).status for each in beside] == ["succeeded"] * 3
    assert record.status == "failed"
    assert "engine_failed" in record.error
    assert "cannot be borne" in record.error
    assert steady.ended(steady.submit(flat(0.9), "moody")).status == "succeeded"
    queue = Queue(bookkeeping.queue_name("steady"), connection=steady.redis, serializer=JSONSerializer)
    assert broken in queue.failed_job_registry.get_job_ids(cleanup=False)


def test_a_running_certification_is_stopped_by_rqs_command(steady: Pool) -> None:
    job = steady.submit(flat(0.5), **LONG | {"procedure": {"name": "fixed", "n": 2_000_000}})
    wait_until(lambda: samples_told(steady.record(job)), "samples")
    running = steady.record(job)
    assert steady.redis.eval(*cancellation.cancel_running(running).arguments)[0] == 1
    canceled = steady.ended(job)
    assert canceled.status == "canceled"
    assert steady.certificates(job) == []
    assert samples_told(canceled) >= samples_told(running) > 0


def samples_told(record: Record) -> int:
    return Progress.model_validate_json(record.progress).samples if record.progress else 0


def test_a_deadline_ends_a_certification(steady: Pool) -> None:
    job = steady.submit(flat(0.5), deadline_s=0.5, **LONG | {"procedure": {"name": "fixed", "n": 2_000_000}})
    record = steady.ended(job)
    assert record.status == "failed"
    assert "deadline_exceeded" in record.error


def test_an_ensemble_that_is_not_the_one_accepted_is_refused(steady: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady, "digest", lambda _: "0" * 64)
    record = steady.ended(steady.submit(flat(0.5)))
    assert record.status == "failed"
    assert "ensemble_changed" in record.error
    assert "0" * 64 in record.error


def test_what_was_accepted_for_an_ensemble_that_the_next_worker_lacks_waits_for_one_that_holds_it(
    server: EmbeddedServer, zoo: Path
) -> None:
    """This happens after a start with another zoo. Work behind it is not held up, and a deadline still ends it."""
    before, after = (Pool(server, zoo, "changed", ensembles=name) for name in ("moody", "trivial"))
    try:
        gone = before.start()
        gone.terminate()
        gone.wait(60)
        waits, late = before.submit(flat(0.9), "moody"), before.submit(flat(0.9), "moody", deadline_s=1.0)
        after.start()
        assert after.ended(after.submit(flat(0.9))).status == "succeeded"
        assert "deadline_exceeded" in after.ended(late).error
        assert after.record(waits).status == "queued"
        before.start()
        assert before.ended(waits).status == "succeeded"
    finally:
        before.end()
        after.end()


def test_a_job_that_names_another_function_is_not_executed(steady: Pool, tmp_path: Path) -> None:
    proof = tmp_path / "executed"
    name = bookkeeping.queue_name("steady")
    queue = Queue(name, connection=steady.redis, serializer=JSONSerializer)
    foreign = queue.enqueue("subprocess.getoutput", f"touch {proof}")
    wait_until(lambda: not Job.exists(foreign.id, connection=steady.redis), "the refusal")
    assert steady.redis.llen(bookkeeping.taken_key(name)) == 0
    assert not proof.exists()

    job = steady.submit(flat(0.9))  # a record of ours does not make the job ours
    steady.ended(job)
    steady.redis.hset(keys.record(job), mapping={"status": "queued", "execution": ""})
    foreign = Job.create(
        "subprocess.getoutput", args=(f"touch {proof}",), id=job, connection=steady.redis, serializer=JSONSerializer
    )
    queue.enqueue_job(foreign)
    wait_until(lambda: not Job.exists(job, connection=steady.redis), "the refusal")
    assert not proof.exists()
    assert steady.ended(steady.submit(flat(0.9))).status == "succeeded"


@pytest.mark.parametrize("junk", [b"", b"not json", b"\x80\x04\x95", b'["workers.jobs.certify", null, [1], {}]'])
def test_a_job_that_cannot_be_read_ends_no_worker(steady: Pool, junk: bytes) -> None:
    job = steady.submit(flat(0.9))
    steady.ended(job)
    steady.redis.hset(keys.record(job), mapping={"status": "queued", "execution": ""})
    steady.redis.hset(bookkeeping.job_key(job), "data", junk)
    steady.redis.rpush(bookkeeping.waiting_key(bookkeeping.queue_name("steady")), job)
    wait_until(lambda: not steady.redis.exists(bookkeeping.job_key(job)), "the refusal")
    assert steady.ended(steady.submit(flat(0.9))).status == "succeeded"


def test_a_request_that_cannot_be_understood_fails_and_ends_no_worker(steady: Pool) -> None:
    job = steady.submit(flat(0.9), radius="wide")
    assert steady.ended(job).status == "failed"
    assert steady.ended(steady.submit(flat(0.9))).status == "succeeded"


def test_many_at_once_are_all_answered(steady: Pool) -> None:
    ids = [steady.submit(flat(0.8)) for _ in range(100)]
    assert {steady.ended(job).status for job in ids} == {"succeeded"}
    assert steady.redis.zcard(bookkeeping.started_key(bookkeeping.queue_name("steady"))) == 0


def test_what_is_slow_to_begin_keeps_nobody_waiting_and_is_not_thought_dead(steady: Pool) -> None:
    radius = 0.01 + time.time() % 1 / 1000  # these boundaries are in no cache yet
    slow = {"name": "sequential", "max_samples": 1_000_000, "abandon": "lost-certificate"}
    large = steady.submit(flat(0.9), procedure=slow, radius=radius)
    wait_until(lambda: steady.record(large).status == "running", "its beginning")
    assert steady.ended(steady.submit(flat(0.9))).status == "succeeded"
    record = steady.ended(large)
    assert (record.status, record.deaths) == ("succeeded", 0)
    assert record.queue == bookkeeping.queue_name("steady")  # it was never in quarantine


@pytest.mark.parametrize("wrong", [-60, 60])
def test_a_worker_whose_clock_is_wrong_does_not_begin(
    steady: Pool, zoo: Path, monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    url, clock = steady.server.url, time.time
    settings = WorkerSettings(redis_url=url, zoo=zoo, pool="late", allowed_imports=",".join(ALLOWED))
    worker = CertificationWorker(RedisConnection(url), settings, Holdings.load(settings, "cpu"))
    monkeypatch.setattr(time, "time", lambda: clock() + wrong)
    with worker.engines, pytest.raises(ClockError, match=rf"differs from that of this machine by \{-wrong:+}\.\d s"):
        worker.serve()
