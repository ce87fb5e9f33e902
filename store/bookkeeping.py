"""RQ's side of a certification. This is the only file that knows RQ's internals.

We use RQ's queues, registries and worker records, so that `rq info` and rq-dashboard show what happens. We do not use
its execution: `python -m workers` takes ids from the queue and never calls the function that a job names.

RQ writes into a pipeline that is never executed. The commands are taken out of it and sent together with our own
record, so that both change or neither does. This is written for RQ 2.12, which the constraints pin;
`tests/service/test_store.py` and `tests/service/test_rq_info.py` compare with RQ itself.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any

from redis import Redis
from redis.client import Pipeline
from rq import Queue, worker_registration
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.results import Result
from rq.serializers import JSONSerializer
from rq.utils import now, utcformat
from rq.worker import BaseWorker, WorkerStatus

from store import keys
from store.commands import Command

FUNCTION = "workers.placeholder.certification"
"""The function that our jobs name, which RQ's tools show. It is a placeholder and is never called."""
EARLIER_FUNCTION = "workers.jobs.certify"
"""The name in jobs that version 0.1 put into the queue; they are accepted, too."""
NO_TIMEOUT = -1
"""RQ's value for a job that may run for any time."""
FAILURE_TTL = 86_400
"""Seconds for which RQ's tools show a failed job: a day, as long as its record is kept by default."""
EXECUTION_TTL = 7 * 86_400
"""Seconds for which RQ believes that an execution lives without a heartbeat.

It is much longer than any silence that we accept, because `rq info` and rq-dashboard move jobs whose time has passed
to the failed ones just by looking. The janitor judges by `keys.executions`, which RQ does not know.
"""


class ForeignJobError(Exception):
    """A job that is not a certification."""


@cache
def _nowhere() -> Redis:
    """A client that never connects: RQ's objects require one."""
    return Redis(host="nowhere.invalid")


def queue_name(pool: str) -> str:
    """The queue in which the certifications of a pool wait."""
    return f"smoothcert-{pool}"


def quarantine_name(pool: str) -> str:
    """The queue of the certifications whose worker died; a worker takes them one at a time."""
    return f"smoothcert-{pool}-quarantine"


@cache
def queue(name: str) -> Queue:
    """RQ's queue of this name, without a connection."""
    made = Queue(name, connection=_nowhere(), serializer=JSONSerializer, default_timeout=NO_TIMEOUT)
    made.redis_server_version = (7, 0, 0)  # otherwise RQ asks the server
    return made


def queue_at(name: str, redis: Redis) -> Queue:
    """RQ's queue of this name with a connection, for what RQ does by itself."""
    return Queue(name, connection=redis, serializer=JSONSerializer)


def waiting_key(name: str) -> str:
    """The list of the ids that wait in a queue."""
    return str(queue(name).key)


WAITING_PREFIX = Queue.redis_queue_namespace_prefix
"""What `waiting_key` puts before the name of a queue."""


def taken_key(name: str) -> str:
    """The list of the ids that a worker has taken and not yet begun."""
    return str(queue(name).intermediate_queue_key)


def started_key(name: str) -> str:
    """RQ's sorted set of `job:execution` for all executions under way."""
    return str(queue(name).started_job_registry.key)


def _job(certification: str, name: str) -> Job:
    job = Job(certification, connection=_nowhere(), serializer=JSONSerializer)
    job.func_name, job.args = FUNCTION, (certification,)
    job.origin, job.timeout, job.failure_ttl = name, NO_TIMEOUT, FAILURE_TTL
    return job


def job_key(certification: str) -> str:
    """The hash of a job."""
    return Job.key_for(certification)


def enqueue(certification: str, name: str, *, at_front: bool) -> list[Command]:
    """Create the job and put it into the queue."""
    job = Job.create(
        FUNCTION,
        args=(certification,),
        id=certification,
        connection=_nowhere(),
        serializer=JSONSerializer,
        timeout=NO_TIMEOUT,
        result_ttl=0,
        failure_ttl=FAILURE_TTL,
        description="a certification, executed by `python -m workers`",
    )
    return _recorded(lambda pipeline: queue(name).enqueue_job(job, pipeline=pipeline, at_front=at_front))


def requeue(certification: str, name: str, execution: str, *, to: str) -> list[Command]:
    """End an execution and let the job belong to a queue again, perhaps another one; `store.waiting` puts it there."""

    def write(pipeline: Pipeline) -> None:
        job = _job(certification, to)
        job.set_status(JobStatus.QUEUED, pipeline=pipeline)
        pipeline.hset(job.key, "origin", to)
        pipeline.sadd(Queue.redis_queues_keys, waiting_key(to))  # or `rq info` would not know the quarantine

    return [*end(certification, name, execution), *_recorded(write)]


def check(data: dict[bytes, bytes], certification: str) -> None:
    """Raise ForeignJobError unless a job's hash names our function and this certification. Nothing is executed."""
    try:
        named, _, arguments, _ = json.loads(zlib.decompress(data[b"data"]))
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise ForeignJobError(f"the job cannot be read: {type(error).__name__}: {error}") from error
    if named not in (FUNCTION, EARLIER_FUNCTION) or arguments != [certification]:
        raise ForeignJobError(f"the job names {named!r} with {arguments!r}; it must name {FUNCTION!r} with its own id")


def begin(certification: str, name: str, worker: str, *, ttl: int) -> tuple[str, list[Command]]:
    """The id of a new execution, and the commands that begin it; it lives for `ttl` seconds without a heartbeat."""
    job = _job(certification, name)
    made: list[Execution] = []

    def write(pipeline: Pipeline) -> None:
        made.append(Execution.create(job, EXECUTION_TTL, pipeline, worker_name=worker))
        job.prepare_for_execution(worker, pipeline=pipeline)

    commands = _recorded(write)
    execution = made[0].id
    return execution, [
        *commands,
        show_state(worker, busy=True),
        ("ZADD", keys.executions(name), time.time() + ttl, _entry(certification, execution)),
    ]


def beat(certification: str, name: str, execution: str, *, ttl: int) -> list[Command]:
    """A heartbeat of an execution, which must not come after its end: `transitions.lease.beat` sees to that."""
    job = _job(certification, name)
    shown = _recorded(
        lambda pipeline: Execution(execution, certification, _nowhere()).heartbeat(
            job.started_job_registry, EXECUTION_TTL, pipeline=pipeline
        )
    )
    return [*shown, ("ZADD", keys.executions(name), "XX", time.time() + ttl, _entry(certification, execution))]


def end(certification: str, name: str, execution: str) -> list[Command]:
    """Remove an execution; the job itself stays."""
    job = _job(certification, name)
    shown = _recorded(lambda pipeline: Execution(execution, certification, _nowhere()).delete(job, pipeline=pipeline))
    return [*shown, ("ZREM", keys.executions(name), _entry(certification, execution))]


def _entry(certification: str, execution: str) -> str:
    """How RQ's registry names an execution, and ours."""
    return f"{certification}:{execution}"


def parse_entry(entry: bytes) -> tuple[str, str]:
    """The certification and the execution that an entry of a registry names."""
    certification, _, execution = entry.decode().rpartition(":")
    return certification, execution


def forget(certification: str) -> list[Command]:
    """Remove the job of a certification that has ended: our own record says everything about it."""
    job = _job(certification, "")
    result = Result.get_key(certification)  # type: ignore[no-untyped-call]
    return [("DEL", job.key, job.dependents_key, job.dependencies_key, job.execution_registry.key, result)]


def unlist(certification: str, name: str) -> Command:
    """Take a certification that failed out of the list of failures that RQ's tools show."""
    return ("ZREM", queue(name).failed_job_registry.key, certification)


def fail(certification: str, name: str, reason: str) -> list[Command]:
    """Put the job among the failed ones, where RQ's tools show it for FAILURE_TTL."""
    job = _job(certification, name)

    def write(pipeline: Pipeline) -> None:
        job.set_status(JobStatus.FAILED, pipeline=pipeline)
        job._handle_failure(reason, pipeline)
        pipeline.expire(job.key, FAILURE_TTL)

    return _recorded(write)


def birth(worker: BaseWorker) -> list[Command]:
    """Register a worker whose name is new, as `BaseWorker.register_birth` does."""

    def write(pipeline: Pipeline) -> None:
        worker.birth_date = worker.last_heartbeat = now()
        pipeline.hset(worker.key, mapping=worker.serialize())
        worker_registration.register(worker, pipeline)
        pipeline.expire(worker.key, worker.worker_ttl + 60)

    return [*_recorded(write), show_state(worker.name, busy=False)]


def heartbeat(worker: BaseWorker, *, ttl: int) -> list[Command]:
    """A heartbeat of a worker; RQ's tools show it for `ttl` seconds without another one."""
    return _recorded(lambda pipeline: worker.heartbeat(ttl, pipeline=pipeline))


def death(worker: BaseWorker) -> list[Command]:
    """Sign a worker off, as `BaseWorker.register_death` does."""

    def write(pipeline: Pipeline) -> None:
        worker_registration.unregister(worker, pipeline)
        pipeline.hset(worker.key, "death", utcformat(now()))
        pipeline.expire(worker.key, 60)

    return _recorded(write)


def credit(worker: str, *, failed: bool) -> Command:
    """Count one more job of a worker, as RQ's tools show it."""
    return ("HINCRBY", worker_key(worker), "failed_job_count" if failed else "successful_job_count", 1)


def show_state(worker: str, *, busy: bool) -> Command:
    """Set the state of a worker that RQ's tools show."""
    return ("HSET", worker_key(worker), "state", (WorkerStatus.BUSY if busy else WorkerStatus.IDLE).value)


def worker_key(worker: str) -> str:
    """The hash of a worker."""
    return f"{BaseWorker.redis_worker_namespace_prefix}{worker}"


def stop_command(certification: str, worker: str) -> Command:
    """RQ's command to a worker to stop a job."""
    return ("PUBLISH", f"rq:pubsub:{worker}", json.dumps({"command": "stop-job", "job_id": certification}))


def _recorded(write: Callable[[Pipeline], Any]) -> list[Command]:
    """The commands that `write` puts into a pipeline, as plain tuples."""
    pipeline = _nowhere().pipeline()
    write(pipeline)
    commands = [tuple(_plain(argument) for argument in arguments) for arguments, _ in pipeline.command_stack]
    return [part for command in commands for part in _parted(command)]


def _parted(command: Command) -> list[Command]:
    """Split a HSET into the fields of text and those of bytes: a command of text alone is packed much faster."""
    name, key, *fields = command
    if name != "HSET" or not any(isinstance(value, bytes) for value in fields):
        return [command]
    pairs = list(zip(fields[::2], fields[1::2], strict=True))
    text = [argument for pair in pairs if not isinstance(pair[1], bytes) for argument in pair]
    return [("HSET", key, *text), *(("HSET", key, *pair) for pair in pairs if isinstance(pair[1], bytes))]


def _plain(argument: Any) -> str | bytes | int | float:
    if isinstance(argument, Enum):
        argument = argument.value
    return argument if isinstance(argument, bytes | int | float) else str(argument)
