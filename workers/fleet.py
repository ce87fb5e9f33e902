"""One worker process for each device of the list; with a single device, this process is the worker."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from pydantic import ValidationError

from smoothcert.engine.errors import DeviceError, PrecisionError
from smoothcert.engine.form import RUNTIMES
from smoothcert.engine.placement import usable_device
from smoothcert.engine.precision import dtype_of
from store.logs import log_as_json
from store.settings import WRONG_SETTINGS, explain_settings
from store.tracing import traces_of
from workers.connection import RedisConnection, until_answered
from workers.errors import SettingsError
from workers.holdings import Holdings
from workers.settings import WorkerSettings
from workers.worker import CertificationWorker

logger = logging.getLogger(__name__)

PAUSE_S = 1.0
"""Seconds before a process that ended is started again, so that one that cannot start does not spin."""
PR_SET_PDEATHSIG = 1
"""The option of Linux' prctl that names the signal a process gets when its parent ends."""


def serve() -> None:
    """Run the workers of this host until SIGTERM."""
    try:
        settings = WorkerSettings()
    except ValidationError as error:
        raise SettingsError(f"the settings are wrong: {explain_settings(error)}") from error
    log_as_json()
    devices = settings.device_list
    if len(devices) > 1:
        # Once before the fleet starts: each of its processes would be refused, and started again for ever.
        RedisConnection(settings.redis).require_usable(strict=settings.strict)
        Fleet(devices).supervise()
    else:
        serve_device(settings, *devices)


def serve_device(settings: WorkerSettings, device: str = "cpu") -> None:
    """Run a worker for one device in this process."""
    try:
        usable_device(device)  # once: otherwise every ensemble would be blamed for it
    except DeviceError as error:
        raise SettingsError(f"SMOOTHCERT_DEVICES: {error}") from error
    try:
        dtype_of(settings.precision)
    except PrecisionError as error:
        raise SettingsError(f"SMOOTHCERT_PRECISION: {error}") from error
    if settings.runtime not in RUNTIMES:
        raise SettingsError(f"SMOOTHCERT_RUNTIME: must be one of {', '.join(RUNTIMES)}; got {settings.runtime!r}")
    if settings.threads:
        torch.set_num_threads(settings.threads)
    traces = traces_of(settings, "smoothcert-worker")
    redis = RedisConnection(settings.redis)
    redis.refuse_unusable(strict=settings.strict)  # before the ensembles are loaded, which takes long
    holdings = Holdings.load(settings, device)
    redis.require_usable(strict=settings.strict)
    until_answered(lambda: CertificationWorker(redis, settings, holdings, traces)).serve()
    if traces is not None:
        traces.close()


class Fleet:
    """A process for each device, which is started again whenever it ends by itself."""

    def __init__(self, devices: list[str]) -> None:
        self._leaving = self._refused = False
        self._processes: dict[int, subprocess.Popen[bytes]] = {}  # by place, since a device may be named twice
        self._devices = devices

    def supervise(self) -> None:
        """Run until SIGTERM, which is passed on to every process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._leave)
        for place in range(len(self._devices)):
            self._start(place)
        while self._processes:
            for place, process in list(self._processes.items()):
                if process.poll() is None:
                    continue
                del self._processes[place]
                if process.returncode == WRONG_SETTINGS:  # it has said what is wrong, and so would the next one
                    self._refused = True
                    self._leave(signal.SIGTERM, None)
                if not self._leaving:
                    ended = (self._devices[place], process.returncode)
                    logger.error("the worker on %s ended with exit code %d and is started again", *ended)
                    time.sleep(PAUSE_S)
                    if not self._leaving:
                        self._start(place)
            time.sleep(0.1)
        if self._refused:
            sys.exit(WRONG_SETTINGS)

    def _start(self, place: int) -> None:
        environment = {**os.environ, "SMOOTHCERT_DEVICES": self._devices[place]}
        self._processes[place] = subprocess.Popen(
            [sys.executable, "-m", "workers"], env=environment, preexec_fn=_leave_with(os.getpid())
        )
        if self._leaving:  # the signal came before there was a process to pass it on to
            self._processes[place].terminate()

    def _leave(self, number: int, _frame: object) -> None:
        self._leaving = True
        for process in self._processes.values():
            process.send_signal(number)


def _leave_with(parent: int) -> Callable[[], None] | None:
    """A function for the child to call before it becomes a worker: Linux then ends it if its parent is killed."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def leave_with_parent() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent ended before prctl was called
            os._exit(1)

    return leave_with_parent
