"""A worker process in a history: the real worker on simulated threads, clock and network."""

from __future__ import annotations

import signal
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from store.address import RedisAddress
from tests.simulation.engine import BATCH, ensemble
from tests.simulation.lines import ThreadLine
from tests.simulation.network import Network
from tests.simulation.world import Process
from workers.connection import RedisConnection
from workers.holdings import Holdings
from workers.settings import WorkerSettings
from workers.worker import CertificationWorker

POOL = "default"
NOWHERE = RedisAddress.of("redis://nowhere.invalid")
"""The address of all workers, which is never used; to examine one takes long."""
SETTINGS = WorkerSettings(
    pool=POOL,
    batch=BATCH,
    slots=2,
    heartbeat_s=2.0,
    dead_after_s=6,
    progress_s=1.2,
    checkpoint_s=1.5,
    drain_s=1.0,
    watchdog_s=1000,
    result_ttl=60,
)


class StagedWorker(CertificationWorker):
    """A worker that receives RQ's commands from the network and not in a thread of redis-py."""

    def __init__(self, network: Network, process: Process, holds: str) -> None:
        self.network, self.process = network, process
        super().__init__(connection(network, process), SETTINGS, Holdings({holds: ensemble(holds)}))

    def subscribe(self) -> None:
        self.network.subscribe(f"rq:pubsub:{self.name}", self.process, self.handle_payload)

    def unsubscribe(self) -> None:
        pass


class WorkerProcess(Process):
    def __init__(self, network: Network, name: str, *, skew: float, holds: str = "looked-up") -> None:
        super().__init__(network.world, name, skew=skew)
        self._network, self._holds = network, holds
        self.start(self._serve)

    def _serve(self) -> None:
        StagedWorker(self._network, self, self._holds).serve()
        self.exit()

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self.on_signal is not None:
            self.on_signal(signal.SIGTERM, None)
        else:
            self.kill()


def connection(network: Network, process: Process) -> RedisConnection:
    """The connection of a worker, through the simulated network."""
    made = RedisConnection(NOWHERE)
    options: dict[str, Any] = {
        "retry": Retry(NoBackoff(), 0),
        "socket_connect_timeout": 2,
        "socket_timeout": 20,
        "driver_info": None,
        "network": network,
        "process": process,
    }
    made.client = redis.Redis(connection_pool=redis.ConnectionPool(connection_class=ThreadLine, **options))
    return made
