"""Real processes, started once for all tests of the API: an embedded Valkey and `python -m app`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from app.local.embedded import EmbeddedServer
from tests.support.api import Api
from tests.support.player import Player


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path_factory.mktemp("valkey")) as running:
        yield running


@pytest.fixture(scope="session")
def api(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """As it is without any settings."""
    with Api(valkey.url, tmp_path_factory.mktemp("api")) as running:
        yield running


@pytest.fixture
def client(api: Api) -> httpx2.Client:
    return api.client


@pytest.fixture
def players(valkey: EmbeddedServer) -> Iterator[Callable[..., Player]]:
    """Workers of the test's own, each of which has announced its ensemble; no trace is left of them."""
    made: list[Player] = []

    def announced(**card: Any) -> Player:
        made.append(Player(valkey.url, **card))
        made[-1].announce()
        return made[-1]

    yield announced
    for each in made:
        each.forget()


@pytest.fixture
def player(players: Callable[..., Player]) -> Player:
    return players()
