"""A whole service: an embedded Valkey, `python -m app` and a worker, around a folder of ensembles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.local.embedded import EmbeddedServer
from tests.support.api import Api
from tests.support.pool import Pool


@contextmanager
def whole_service(folder: Path, zoo: Path, **settings: str) -> Iterator[Api]:
    """Its data is in the folder; the settings are the worker's."""
    with EmbeddedServer(folder / "valkey") as server:
        pool = Pool(server, zoo, "default", **settings)
        try:
            pool.start()
            with Api(server.url, folder) as api:
                yield api
        finally:
            pool.end()
