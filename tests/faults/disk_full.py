"""The disk of Redis, a real file system of a few megabytes, is full for a while in the middle of work."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from tests.faults.exhibit import SMALL
from tests.faults.service import Service
from tests.faults.witness import Witness

SIZE = 16 << 20
"""The bytes of the file system."""
BALLAST = "ballast"
"""The file that fills it."""


class NoMountError(Exception):
    """This user may not mount a file system."""


@contextmanager
def stage(folder: Path) -> Iterator[Service]:
    """A service whose Valkey has its own disk."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoMountError(f"a disk of its own needs the right to mount: {error}") from error
    try:
        with Service(folder, SMALL, data=disk / "valkey") as service:
            yield service
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def attempt(service: Service, witness: Witness, chance: Random) -> None:
    """Fill the disk. A server that syncs each second then refuses to write; one that always syncs ends."""
    stays, deaths = chance.random() < 0.5, len(service.deaths)
    service.redis.config_set("appendfsync", "everysec" if stays else "always")
    witness.post(service.exhibit.question(chance))
    time.sleep(chance.uniform(0, 1.0))
    ballast = service.server.folder.parent / BALLAST
    fill(ballast)
    until = time.monotonic() + chance.uniform(1.0, 3.0)
    while time.monotonic() < until:
        witness.post(service.exhibit.question(chance))
        time.sleep(0.2)
    ballast.unlink()
    if service.server.ended:
        service.server.start()
    witness.submit(service.exhibit.question(chance))  # the service works again without help
    witness.await_ends()
    witness.check(len(service.deaths) == deaths, f"workers ended: {service.deaths[deaths:]}")


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
