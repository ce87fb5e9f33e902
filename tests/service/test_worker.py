"""Worker processes: what they answer, and what becomes of certifications when they are killed, stopped or poisoned."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer

from app.local.embedded import EmbeddedServer
from models.registry import load
from smoothcert.certification import Progress
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed, Sequential
from smoothcert.question import Question
from smoothcert.verification import verify
from store import bookkeeping, keys, transitions
from store.commands import Call
from store.presence import REMEMBERED, Offer, Presence
from store.record import Record
from store.waiting import ANONYMOUS
from tests.support.pool import Pool, flat, wait_until, without_times
from tests.support.worker_networks import BREAK, HANG, POISON
from tests.support.zoo import ALLOWED, SIGMA, make_zoo
from workers.connection import AWAY, RedisConnection
from workers.errors import ClockError
from workers.holdings import Holdings
from workers.janitor import Janitor
from workers.settings import WorkerSettings
from workers.worker import CertificationWorker

SEED = "0123456789abcdef"
LONG = {"ensemble": "moody", "procedure": {"name": "fixed", "n": 20_000}, "radius": None}
"""About two seconds of work."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_zoo(tmp_path_factory.mktemp("zoo") / "zoo")


@pytest.fixture(scope="module")
def steady(server: EmbeddedServer, zoo: Path) -> Iterator[Pool]:
    """A pool with one worker that is left alone."""
    pool = Pool(server, zoo, "steady")
    pool.start()
    yield pool
    pool.end()


@pytest.fixture
def pool(server: EmbeddedServer, zoo: Path, request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A pool for one test, without a worker at first."""
    made = Pool(server, zoo, request.node.name[:60].replace("[", "-").replace("]", ""))
    yield made
    made.end()


@pytest.fixture
def alone(zoo: Path, tmp_path: Path) -> Iterator[Pool]:
    """A pool with its own server, which may be killed or filled up."""
    with EmbeddedServer(tmp_path / "server") as own:
        made = Pool(own, zoo, "alone")
        yield made
        made.end()


def undisturbed(zoo: Path, ensemble: str, question: Question, value: float) -> dict[str, object]:
    """The certificate of an engine in this process."""
    held = load(ensemble, zoo=zoo, allowed_imports=frozenset(ALLOWED))
    with Engine(held) as engine:
        return without_times(certify(engine, torch.from_numpy(flat(value)), question, seed=SEED)[0])


@pytest.fixture(scope="module")
def expected(zoo: Path) -> dict[str, object]:
    """The certificate of LONG for an image of 0.503, by an undisturbed engine."""
    return undisturbed(zoo, "moody", Question(Gaussian(SIGMA), Fixed(n=20_000)), 0.503)


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
    assert steady.redis.eval(*transitions.cancel_running(running).arguments)[0] == 1
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


def test_another_goes_on_from_the_checkpoint_of_a_worker_that_was_killed(
    pool: Pool, expected: dict[str, object]
) -> None:
    first = pool.start()
    job = pool.submit(flat(0.503), seed=SEED, **LONG)
    wait_until(lambda: pool.record(job).samples_saved > 1000, "a checkpoint")
    first.kill()
    first.wait()
    reached = pool.record(job).samples_saved
    pool.start()
    wait_until(lambda: pool.record(job).samples_at_start, "the second worker")
    assert pool.record(job).samples_at_start >= reached
    assert pool.ended(job).status == "succeeded"
    assert [without_times(each) for each in pool.certificates(job)] == [expected]


def test_a_worker_that_leaves_hands_back_what_it_has_not_finished(pool: Pool, expected: dict[str, object]) -> None:
    pool.settings["drain_s"] = 0.5
    first = pool.start()
    job = pool.submit(flat(0.503), seed=SEED, **LONG)
    wait_until(lambda: pool.record(job).progress, "progress")
    first.terminate()
    assert first.wait(30) == 0
    record = pool.record(job)
    assert (record.status, record.deaths) == ("queued", 0)
    assert record.samples_saved > 0
    pool.start()
    assert pool.ended(job).status == "succeeded"
    assert [without_times(each) for each in pool.certificates(job)] == [expected]


def test_a_worker_that_leaves_finishes_what_ends_soon(pool: Pool) -> None:
    first = pool.start()
    job = pool.submit(flat(0.9, 3), "moody")
    wait_until(lambda: pool.record(job).status != "queued", "its beginning")
    first.terminate()
    assert first.wait(60) == 0
    assert pool.record(job).status == "succeeded"


def test_a_worker_that_comes_back_from_a_long_sleep_writes_nothing_any_more(
    pool: Pool, expected: dict[str, object]
) -> None:
    sleeper = pool.start()
    (name,) = pool.workers()
    job = pool.submit(flat(0.503), seed=SEED, **LONG)
    wait_until(lambda: pool.record(job).samples_saved, "a checkpoint")
    os.kill(sleeper.pid, signal.SIGSTOP)
    execution = pool.record(job).execution
    pool.start()
    wait_until(lambda: pool.record(job).execution not in ("", execution), "the second worker")
    woken_at = time.time()
    os.kill(sleeper.pid, signal.SIGCONT)
    assert pool.ended(job).status == "succeeded"
    finished_at = pool.record(job).finished_at
    assert [without_times(each) for each in pool.certificates(job)] == [expected]
    wait_until(lambda: idle_since(pool, name, woken_at), "the sleeper to let go of it")
    assert pool.record(job).finished_at == finished_at
    assert sleeper.poll() is None  # it goes on with other things
    assert pool.redis.zcard(bookkeeping.started_key(bookkeeping.queue_name(pool.name))) == 0


def idle_since(pool: Pool, worker: bytes, moment: float) -> bool:
    """Whether a worker has announced since then that it has nothing under way."""
    text = pool.redis.get(keys.worker(worker.decode()))
    seen = Presence.model_validate_json(text) if text else None
    return seen is not None and seen.beat_at > moment and seen.live == 0


def test_poison_fails_after_two_deaths_and_its_neighbours_are_answered(pool: Pool) -> None:
    pool.start()
    neighbours = [pool.submit(flat(0.503), **LONG) for _ in range(3)]
    wait_until(lambda: all(pool.record(job).status == "running" for job in neighbours), "the neighbours")
    poison = pool.submit(flat(POISON), "moody")
    deaths = 0
    while not pool.record(poison).ended:
        wait_until(lambda: pool.processes[-1].poll() is not None or pool.record(poison).ended, "a death")
        if pool.processes[-1].poll() is not None:
            deaths += 1
            assert deaths <= 3
            pool.start()
    record = pool.record(poison)
    assert record.status == "failed"
    assert "worker_died" in record.error
    assert deaths == 2
    assert {pool.ended(job).status for job in neighbours} == {"succeeded"}


def test_the_watchdog_ends_a_process_whose_device_does_not_move(pool: Pool) -> None:
    pool.settings["watchdog_s"] = 2
    worker = pool.start()
    pool.submit(flat(HANG), "moody")
    assert worker.wait(60) == 70


def test_redis_may_go_away_and_come_back_in_the_middle(alone: Pool, expected: dict[str, object]) -> None:
    worker = alone.start()
    job = alone.submit(flat(0.503), seed=SEED, **LONG)
    wait_until(lambda: alone.record(job).samples_saved, "a checkpoint")
    alone.server.kill()
    time.sleep(0.5)  # several reports and heartbeats fail
    alone.server.start()
    assert alone.ended(job).status == "succeeded"
    assert [without_times(each) for each in alone.certificates(job)] == [expected]
    assert worker.poll() is None


def test_a_full_redis_ends_no_worker_and_loses_nothing(alone: Pool, expected: dict[str, object]) -> None:
    worker = alone.start()
    job = alone.submit(flat(0.503), seed=SEED, **LONG)
    wait_until(lambda: alone.record(job).samples_saved, "a checkpoint")
    alone.redis.config_set("maxmemory", 1)
    time.sleep(1)  # many reports and two heartbeats fail
    alone.redis.config_set("maxmemory", 0)
    assert alone.ended(job).status == "succeeded"
    assert [without_times(each) for each in alone.certificates(job)] == [expected]
    assert worker.poll() is None


def test_an_end_is_written_even_where_memory_is_full(alone: Pool) -> None:
    alone.start()
    job = alone.submit(flat(0.503), **LONG)
    wait_until(lambda: alone.record(job).status == "running", "its beginning")
    alone.redis.config_set("maxmemory", 1)
    assert alone.ended(job).status == "succeeded"


def test_a_worker_leaves_even_where_redis_does_not_come_back(alone: Pool) -> None:
    alone.settings["drain_s"] = 0.5
    hasty = "import runpy, workers.worker as it; it.FAREWELL_S = 1.0; runpy.run_module('workers', run_name='__main__')"
    alone.command = (sys.executable, "-c", hasty)
    worker = alone.start()
    job = alone.submit(flat(0.5), **LONG | {"procedure": {"name": "fixed", "n": 2_000_000}})
    wait_until(lambda: alone.record(job).status == "running", "its beginning")
    alone.server.kill()
    worker.terminate()
    assert worker.wait(60) == 70


def test_a_list_of_devices_is_a_process_for_each(pool: Pool) -> None:
    pool.settings["devices"] = "cpu,cpu"
    fleet = pool.start()
    wait_until(lambda: len(pool.workers()) == 2, "both workers")
    first, second = pids(pool)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: pids(pool) - {first, second}, "another in its place")
    assert pool.ended(pool.submit(flat(0.9))).status == "succeeded"
    serving = pids(pool) - {first}
    assert serving
    fleet.terminate()
    assert fleet.wait(60) == 0
    assert not [pid for pid in serving if Path(f"/proc/{pid}").exists()]


def pids(pool: Pool) -> set[int]:
    return {int(pool.redis.hget(bookkeeping.worker_key(name.decode()), "pid")) for name in pool.workers()}


def test_an_ensemble_that_nobody_serves_any_more_is_forgotten(steady: Pool) -> None:
    offer = Offer.model_validate_json(steady.redis.hget(keys.ENSEMBLES, "steady/trivial"))
    old = offer.model_copy(update={"seen_at": time.time() - REMEMBERED - 1})
    steady.redis.hset(keys.ENSEMBLES, "gone/old", old.model_dump_json())
    wait_until(lambda: not steady.redis.hexists(keys.ENSEMBLES, "gone/old"), "the janitor")
    assert steady.redis.hexists(keys.ENSEMBLES, "steady/trivial")


def test_what_is_slow_to_begin_keeps_nobody_waiting_and_is_not_thought_dead(steady: Pool) -> None:
    radius = 0.01 + time.time() % 1 / 1000  # boundaries that are in no cache yet
    slow = {"name": "sequential", "max_samples": 1_000_000, "abandon": "lost-certificate"}
    large = steady.submit(flat(0.9), procedure=slow, radius=radius)
    wait_until(lambda: steady.record(large).status == "running", "its beginning")
    assert steady.ended(steady.submit(flat(0.9))).status == "succeeded"
    record = steady.ended(large)
    assert (record.status, record.deaths) == ("succeeded", 0)
    assert record.queue == bookkeeping.queue_name("steady")  # never in quarantine


def swept(pool: Pool) -> None:
    """Wait for a whole sweep of the janitor."""
    lock = f"{keys.JANITOR}:{pool.name}"
    wait_until(lambda: pool.redis.exists(lock), "a sweep")
    wait_until(lambda: not pool.redis.exists(lock), "its end")


def test_those_that_wait_to_be_prepared_are_not_thought_dead(pool: Pool) -> None:
    worker = pool.start()
    swept(pool)
    os.kill(worker.pid, signal.SIGSTOP)  # so that it takes all of them at once
    first = 0.01 + time.time() % 1 / 1000  # boundaries that are in no cache yet: some seconds for all
    procedure = {"name": "sequential", "max_samples": 200_000}
    jobs = [pool.submit(flat(0.9), procedure=procedure, radius=first + n / 10_000) for n in range(24)]
    os.kill(worker.pid, signal.SIGCONT)
    records = [pool.ended(job) for job in jobs]
    assert {record.status for record in records} == {"succeeded"}
    assert {record.queue for record in records} == {bookkeeping.queue_name(pool.name)}  # never in quarantine


def test_a_redis_that_stands_still_for_a_while_makes_nobody_dead(alone: Pool) -> None:
    alone.start()
    job = alone.submit(flat(0.5), **LONG | {"procedure": {"name": "fixed", "n": 2_000_000}})
    wait_until(lambda: alone.record(job).samples_saved, "a checkpoint")
    swept(alone)
    execution, redis = alone.record(job).execution, alone.redis.info("server")["process_id"]
    os.kill(redis, signal.SIGSTOP)
    time.sleep(3.5)  # longer than dead_after_s
    os.kill(redis, signal.SIGCONT)
    swept(alone)
    assert alone.record(job).execution == execution


def test_new_work_does_not_keep_a_process_whose_device_hangs(pool: Pool) -> None:
    pool.settings |= {"watchdog_s": 2, "slots": 4096}
    worker = pool.start()
    pool.submit(flat(HANG), "moody")

    def ended_though_fed() -> bool:
        pool.submit(flat(0.9))
        return worker.poll() is not None

    wait_until(ended_though_fed, "the watchdog", patience=60)
    assert worker.returncode == 70


def test_an_idle_worker_is_not_ended_by_the_watchdog(pool: Pool) -> None:
    pool.settings["watchdog_s"] = 1
    pool.start()
    for _ in range(2):
        time.sleep(1.5)  # longer than watchdog_s
        assert pool.ended(pool.submit(flat(0.9), "moody")).status == "succeeded"
    assert pool.processes[0].poll() is None


def test_redis_may_go_away_while_a_batch_is_begun(alone: Pool, zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Leaving(RedisConnection):
        """A connection whose server goes away right after an answer."""

        def call(self, calls: Sequence[Call]) -> list[tuple[bool, str]]:
            answers = super().call(calls)
            alone.server.kill()
            return answers

    settings = WorkerSettings(redis_url=alone.server.url, zoo=zoo, pool=alone.name, allowed_imports=",".join(ALLOWED))
    holdings = Holdings.load(settings, "cpu")
    digests = {card.name: card.digest for card in holdings.cards}
    monkeypatch.setattr(alone, "digest", digests.__getitem__)
    deleted, job = alone.submit(flat(0.9)), alone.submit(flat(0.9))
    worker = CertificationWorker(Leaving(alone.server.url), settings, holdings)
    with worker.engine:
        found = worker._fetch([deleted, job])
        alone.redis.delete(keys.record(deleted))
        with pytest.raises(AWAY):
            worker._begin(found, worker.queue)
        assert [(work.record.id, work.prepared) for work in worker.clerk.works] == [(job, True)]


def test_what_cannot_be_read_does_not_keep_the_janitor_from_the_rest(server: EmbeddedServer) -> None:
    settings = WorkerSettings(redis_url=server.url, pool="damaged", dead_after_s=2)
    here, queue = RedisConnection(server.url), bookkeeping.queue_name("damaged")
    janitor, registry = Janitor(here, settings, "me"), bookkeeping.started_key(queue)
    here.client.hset(keys.record("cert_damaged"), mapping={"id": "cert_damaged", "images": "many"})
    here.client.zadd(registry, {"cert_damaged:execution": 1, "cert_gone:execution": 2})
    here.client.hset(keys.ENSEMBLES, "damaged/later", '{"pool": "damaged", "seen_at": 1}')

    def swept() -> bool:
        janitor.sweep()
        return not here.client.exists(registry)

    wait_until(swept, "both to be buried")


@pytest.mark.parametrize("wrong", [-60, 60])
def test_a_worker_whose_clock_is_wrong_does_not_begin(
    steady: Pool, zoo: Path, monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    url, clock = steady.server.url, time.time
    settings = WorkerSettings(redis_url=url, zoo=zoo, pool="late", allowed_imports=",".join(ALLOWED))
    worker = CertificationWorker(RedisConnection(url), settings, Holdings.load(settings, "cpu"))
    monkeypatch.setattr(time, "time", lambda: clock() + wrong)
    with worker.engine, pytest.raises(ClockError, match=rf"is \{-wrong:+}\.\d s from that of this machine"):
        worker.serve()


def test_a_janitor_whose_clock_is_wrong_judges_nobody(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = WorkerSettings(redis_url=server.url, pool="clocks", dead_after_s=2)
    here, clock = RedisConnection(server.url), time.time
    janitor, registry = Janitor(here, settings, "me"), bookkeeping.started_key(bookkeeping.queue_name("clocks"))

    def sweep() -> bool:
        """Sweep, and tell whether the execution was found dead."""
        here.client.delete(f"{keys.JANITOR}:clocks")
        here.client.zadd(registry, {"cert_x:execution": clock() - 1})
        janitor.sweep()
        return not here.client.exists(registry)

    wait_until(sweep, "the first sweep")
    monkeypatch.setattr(time, "time", lambda: clock() + 60)
    assert not sweep()
    assert not sweep()
    assert caplog.text.count("no worker is judged dead") == 1
    monkeypatch.undo()
    assert sweep()
