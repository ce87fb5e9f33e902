"""A whole service: an embedded Valkey, `python -m app` and a worker, around a folder of ensembles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from app.local.embedded import EmbeddedServer
from tests.support.api import Api
from tests.support.pool import Pool


@contextmanager
def whole_service(folder: Path, zoo: Path, api: Mapping[str, str] | None = None, **settings: str) -> Iterator[Api]:
    """Run the service with its data in the folder; `api` has settings of the API, the others are the worker's."""
    with EmbeddedServer(folder / "valkey") as server:
        pool = Pool(server, zoo, "default", **settings)
        try:
            pool.start()
            with Api(server.url, folder, **(api or {})) as running:
                yield running
        finally:
            pool.end()
