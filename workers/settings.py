"""The settings of a worker process, which are read from the environment when it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from models.registry import ZOO
from smoothcert.engine.remote.endpoint import RemotePolicy
from store.settings import RedisSettings, listed


class WorkerSettings(RedisSettings):
    """Each field is read from the environment variable SMOOTHCERT_ and its name in capitals."""

    pool: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = "default"
    """The name of the pool. Workers of a pool hold the same ensembles and share a queue."""
    zoo: Path = ZOO
    ensembles: str = ""
    """The names of ensembles, separated by commas; all of the zoo if empty."""
    allowed_imports: str = ""
    """`module:callable` of networks that ensembles may name, separated by commas: the operator's own code."""
    remote_hosts: str = ""
    """The hosts, or HOST:PORT, at which members of ensembles may run, separated by commas; none if empty."""
    remote_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    """Seconds that one try of a request to an endpoint may take; fewer than `watchdog_s`."""
    remote_patience_s: Annotated[float, Field(ge=0)] = 60.0
    """Seconds for which an endpoint that is away is tried again; then the certifications that wait for it fail."""
    remote_connections: Annotated[int, Field(ge=1, le=256)] = 4
    """The most requests to an endpoint at a time."""
    devices: str = "cpu"
    """Devices, separated by commas; each gets a process."""
    precision: str = "float32"
    runtime: str = "torch"
    """What computes the networks: torch; onnxruntime or openvino (may be faster on a CPU); compiled (on a GPU)."""
    batch: Annotated[int, Field(ge=0, le=65_536)] = 0
    """The images of a batch; 0 for 256 on a CPU, and elsewhere for the size that is fastest when a worker starts."""
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    """The CPU threads for the networks; 0 for torch's own choice."""
    slots: Annotated[int, Field(ge=1, le=4096)] = 32
    """The most certifications at a time."""
    owner_slots: Annotated[int, Field(ge=0, le=4096)] = 0
    """The most certifications of one key at a time; 0 for half of the slots. Without keys there is no such limit."""
    work_mb: Annotated[int, Field(ge=1)] = 64
    """The most megabytes of images at a time, as Redis holds them; a larger certification is taken alone."""
    heartbeat_s: Annotated[float, Field(gt=0)] = 2.0
    """Seconds between two heartbeats; several must fit into `dead_after_s`."""
    dead_after_s: Annotated[int, Field(ge=2)] = 12
    """Seconds without a heartbeat after which a worker is taken for dead and its certifications go to others."""
    progress_s: Annotated[float, Field(gt=0)] = 0.3
    """Seconds between two reports of progress, which clients see as a live chart."""
    checkpoint_s: Annotated[float, Field(gt=0)] = 2.0
    """Seconds between two checkpoints: as much work is repeated at most when a worker dies."""
    drain_s: Annotated[float, Field(ge=0)] = 20.0
    """Seconds after SIGTERM in which certifications may end; the others are handed back."""
    watchdog_s: Annotated[float, Field(gt=0)] = 120.0
    """Seconds without the end of a batch, while there is work, after which the process ends itself."""
    result_ttl: Annotated[int, Field(ge=1)] = 86_400
    """Seconds for which a certification that has ended is kept."""

    @property
    def share(self) -> int:
        """The most certifications of one key at a time."""
        return self.owner_slots or max(1, self.slots // 2)

    @property
    def device_list(self) -> list[str]:
        return listed(self.devices)

    @property
    def ensemble_list(self) -> list[str]:
        return listed(self.ensembles)

    @property
    def remote(self) -> RemotePolicy:
        return RemotePolicy(
            frozenset(listed(self.remote_hosts)), self.remote_timeout_s, self.remote_patience_s, self.remote_connections
        )

    @model_validator(mode="after")
    def _check_watchdog(self) -> Self:
        if self.remote_hosts and self.remote_timeout_s >= self.watchdog_s:
            raise ValueError(
                f"remote_timeout_s is {self.remote_timeout_s:g}, and must be less than watchdog_s, {self.watchdog_s:g}"
            )
        return self

    @property
    def import_list(self) -> frozenset[str]:
        return frozenset(listed(self.allowed_imports))
