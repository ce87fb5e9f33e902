"""All faults, in the order in which they are tried."""

from __future__ import annotations

from pathlib import Path

from tests.faults import (
    api_killed,
    archive_killed,
    disk_full,
    drain,
    hang,
    out_of_memory,
    partition,
    poison,
    redis_killed,
    shard_killed,
    worker_killed,
    worker_stopped,
)
from tests.faults.exhibit import SHIPPED, SMALL
from tests.faults.fault import Fault
from tests.faults.service import Service


def small(folder: Path) -> Service:
    """A service with small, slow networks."""
    return Service(folder, SMALL)


def shipped(folder: Path) -> Service:
    """A service with the shipped ensemble."""
    return Service(folder, SHIPPED)


FAULTS = (
    Fault("image that crashes the worker", poison.attempt, 3, 1, small),
    Fault("hang inside the forward pass", hang.attempt, 3, 1, small),
    Fault("out of memory in the engine", out_of_memory.attempt, 3, 1, small),
    Fault("SIGTERM to all workers, new ones started", drain.attempt, 3, 1, small),
    Fault("SIGSTOP of a worker past its heartbeat", worker_stopped.attempt, 5, 1, small),
    Fault("SIGKILL of the API, clients waiting and streaming", api_killed.attempt, 5, 1, small),
    Fault("SIGKILL of Redis, restart on its file", redis_killed.attempt, 20, 2, small),
    Fault("SIGKILL of a worker", worker_killed.attempt, 45, 4, small),
    Fault("SIGKILL of a worker that has a shard", shard_killed.attempt, 10, 1, small),
    Fault("SIGKILL of a worker, shipped ensemble", worker_killed.attempt, 5, 1, shipped),
    Fault(
        "SIGKILL of every process at every step of the archive", archive_killed.attempt, 100, 3, archive_killed.stage
    ),
    Fault("links between hosts cut, slowed and restored", partition.attempt, 30, 1, partition.stage),
    Fault("full disk under Redis", disk_full.attempt, 6, 1, disk_full.stage),
)
