"""The service with the shipped ensemble, while the context is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.embedded import EmbeddedServer
from models.registry import ZOO
from tests.service.api import Api
from tests.service.pool import Pool

NAME = "cifar10-resnet20-gaussian-0.25"


@contextmanager
def shipped(folder: Path) -> Iterator[Api]:
    """It keeps its data in the folder."""
    with EmbeddedServer(folder / "valkey") as server:
        pool = Pool(server, ZOO, "default", ensembles=NAME)
        try:
            pool.start()
            with Api(server.url, folder) as api:
                yield api
        finally:
            pool.end()
