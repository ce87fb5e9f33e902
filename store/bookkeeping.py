"""RQ's side of a certification: its queues, its jobs, its registries. The only file that knows RQ's internals.

RQ writes into a pipeline that is never executed; what it wrote is taken out as commands and sent together with our own
record. Written for RQ 2.12, which the constraints pin; `tests/service/test_store.py` compares with RQ itself.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any

from redis import Redis
from redis.client import Pipeline
from rq import Queue
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer

from store.commands import Command

FUNCTION = "workers.jobs.certify"
"""The only function that a job may name."""
NO_TIMEOUT = -1
FAILURE_TTL = 86_400


class ForeignJobError(Exception):
    """A job that is not a certification."""


@cache
def _nowhere() -> Redis:
    """A client that never connects: RQ's objects want one."""
    return Redis(host="nowhere.invalid")


def queue_name(pool: str) -> str:
    """Where the certifications of a pool wait."""
    return f"smoothcert-{pool}"


def quarantine_name(pool: str) -> str:
    """Where those wait whose worker died: a worker takes them one at a time."""
    return f"smoothcert-{pool}-quarantine"


@cache
def queue(name: str) -> Queue:
    """RQ's queue of this name."""
    made = Queue(name, connection=_nowhere(), serializer=JSONSerializer, default_timeout=NO_TIMEOUT)
    made.redis_server_version = (7, 0, 0)  # so that RQ does not ask
    return made


def queue_at(name: str, redis: Redis) -> Queue:
    """RQ's queue of this name, with a connection, for what RQ does by itself."""
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
    """The sorted set of `job:execution`, by when its heartbeat expires."""
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
        description="certify",
    )
    return _recorded(lambda pipeline: queue(name).enqueue_job(job, pipeline=pipeline, at_front=at_front))


def requeue(certification: str, name: str, execution: str, *, to: str) -> list[Command]:
    """End an execution and put the job at the front of a queue, perhaps another one."""

    def write(pipeline: Pipeline) -> None:
        job = _job(certification, to)
        job.set_status(JobStatus.QUEUED, pipeline=pipeline)
        pipeline.hset(job.key, "origin", to)
        queue(to).push_job_id(certification, pipeline=pipeline, at_front=True)

    return [*end(certification, name, execution), *_recorded(write)]


def check(data: dict[bytes, bytes], certification: str) -> None:
    """That a job's hash names our function and this certification; nothing in it is executed."""
    try:
        named, _, arguments, _ = json.loads(zlib.decompress(data[b"data"]))
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise ForeignJobError(f"the job cannot be read: {type(error).__name__}: {error}") from error
    if named != FUNCTION or arguments != [certification]:
        raise ForeignJobError(f"the job names {named!r} with {arguments!r}, not {FUNCTION!r}")


def begin(certification: str, name: str, worker: str, *, ttl: int) -> tuple[str, list[Command]]:
    """The id of a new execution, and the commands that begin it."""
    job = _job(certification, name)
    made: list[Execution] = []

    def write(pipeline: Pipeline) -> None:
        made.append(Execution.create(job, ttl, pipeline, worker_name=worker))
        job.prepare_for_execution(worker, pipeline=pipeline)
        pipeline.lrem(taken_key(name), 1, certification)

    commands = _recorded(write)
    return made[0].id, commands


def beat(certification: str, name: str, execution: str, *, ttl: int) -> list[Command]:
    """A heartbeat of an execution, if it is still registered."""
    job = _job(certification, name)
    return _recorded(
        lambda pipeline: Execution(execution, certification, _nowhere()).heartbeat(
            job.started_job_registry, ttl, pipeline=pipeline
        )
    )


def end(certification: str, name: str, execution: str) -> list[Command]:
    """Remove an execution; the job itself stays."""
    job = _job(certification, name)
    return _recorded(lambda pipeline: Execution(execution, certification, _nowhere()).delete(job, pipeline=pipeline))


def forget(certification: str) -> list[Command]:
    """Remove the job of a certification that has ended: our own record says all there is to say."""
    job = _job(certification, "")
    return [("DEL", job.key, job.dependents_key, job.dependencies_key, job.execution_registry.key)]


def fail(certification: str, name: str, reason: str) -> list[Command]:
    """Put the job among the failed ones, where an operator finds it with RQ's own tools for a day."""
    job = _job(certification, name)

    def write(pipeline: Pipeline) -> None:
        job.set_status(JobStatus.FAILED, pipeline=pipeline)
        job._handle_failure(reason, pipeline)
        pipeline.expire(job.key, FAILURE_TTL)

    return _recorded(write)


def withdraw(certification: str, name: str) -> list[Command]:
    """Take a job out of its queue."""
    return [("LREM", waiting_key(name), 1, certification), *forget(certification)]


def stop_command(certification: str, worker: str) -> Command:
    """RQ's command to a worker to stop a job."""
    return ("PUBLISH", f"rq:pubsub:{worker}", json.dumps({"command": "stop-job", "job_id": certification}))


def _recorded(write: Callable[[Pipeline], Any]) -> list[Command]:
    pipeline = _nowhere().pipeline()
    write(pipeline)
    commands = [tuple(_plain(argument) for argument in arguments) for arguments, _ in pipeline.command_stack]
    return [part for command in commands for part in _parted(command)]


def _parted(command: Command) -> list[Command]:
    """A HSET of many fields, with those of bytes apart: text alone is packed much faster."""
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
