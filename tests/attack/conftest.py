"""The services that are attacked: the one that the service's own tests use, and a whole one with Valkey and worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.local.embedded import EmbeddedServer
from tests.service.conftest import api, client, player, players, valkey  # noqa: F401
from tests.support.api import Api
from tests.support.attacked import Whole
from tests.support.owners import ENTRIES


@pytest.fixture(scope="session")
def odd(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:  # noqa: F811
    """A service that knows other names and origins, waits only briefly, and has room for little."""
    settings = {
        "allowed_hosts": "api, Smooth.Example",
        "cors_origins": "https://good.example",
        "head_seconds": 0.5,
        "connections": 20,
        "bodies_mb": 16,
        "request_bytes": 4_000_000,
    }
    with Api(valkey.url, tmp_path_factory.mktemp("odd"), **settings) as running:
        yield running


@pytest.fixture(scope="session")
def locked(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:  # noqa: F811
    """A service that requires keys."""
    with Api(valkey.url, tmp_path_factory.mktemp("locked"), api_keys=",".join(ENTRIES)) as running:
        yield running


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    with Whole(tmp_path_factory.mktemp("whole")) as running:
        yield running
