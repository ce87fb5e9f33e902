"""What becomes of certifications when worker processes are killed, stopped, poisoned, hung or asked to leave."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

from store import bookkeeping, keys
from store.presence import Presence
from tests.support.pool import LONG, SEED, Pool, flat, swept, wait_until, without_times
from tests.support.worker_networks import HANG, POISON


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


def test_a_worker_that_could_not_load_an_ensemble_leaves_it_to_one_that_could(
    pool: Pool, zoo: Path, tmp_path: Path
) -> None:
    first = pool.start()
    pool.zoo = Path(shutil.copytree(zoo, tmp_path / "zoo"))
    file = next((pool.zoo / "trivial").glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    pool.start()
    first.terminate()
    assert first.wait(30) == 0
    jobs = [pool.submit(flat(0.9), "trivial") for _ in range(3)]
    assert pool.ended(pool.submit(flat(0.9), "moody")).status == "succeeded", "others are not kept waiting"
    assert {pool.record(job).status for job in jobs} == {"queued"}
    pool.zoo = zoo
    pool.start()
    assert {pool.ended(job).status for job in jobs} == {"succeeded"}


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
    assert sleeper.poll() is None  # it goes on with other work
    assert pool.redis.zcard(bookkeeping.started_key(bookkeeping.queue_name(pool.name))) == 0


def idle_since(pool: Pool, worker: bytes, moment: float) -> bool:
    """Whether a worker has reported since then that it has nothing under way."""
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


def test_those_that_wait_to_be_prepared_are_not_thought_dead(pool: Pool) -> None:
    worker = pool.start()
    swept(pool)
    os.kill(worker.pid, signal.SIGSTOP)  # it then takes all of them at once
    first = 0.01 + time.time() % 1 / 1000  # no cache has these boundaries, which take some seconds in all
    procedure = {"name": "sequential", "max_samples": 200_000}
    jobs = [pool.submit(flat(0.9), procedure=procedure, radius=first + n / 10_000) for n in range(24)]
    os.kill(worker.pid, signal.SIGCONT)
    records = [pool.ended(job) for job in jobs]
    assert {record.status for record in records} == {"succeeded"}
    assert {record.queue for record in records} == {bookkeeping.queue_name(pool.name)}  # it was never in quarantine


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
