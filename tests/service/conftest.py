"""Real processes: an embedded Valkey and `python -m app` for all tests of the API, and pools of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.local.embedded import EmbeddedServer
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed
from smoothcert.question import Question
from tests.support.api import Api
from tests.support.player import Player
from tests.support.pool import Pool
from tests.support.undisturbed import undisturbed
from tests.support.zoo import SIGMA, make_zoo


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path_factory.mktemp("valkey")) as running:
        yield running


@pytest.fixture(scope="session")
def api(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """The service as it runs without any settings."""
    with Api(valkey.url, tmp_path_factory.mktemp("api")) as running:
        yield running


@pytest.fixture
def client(api: Api) -> httpx2.Client:
    return api.client


@pytest.fixture
def players(valkey: EmbeddedServer) -> Iterator[Callable[..., Player]]:
    """Workers that the test plays, each of which has announced its ensemble; they leave no trace."""
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


# --- workers


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_zoo(tmp_path_factory.mktemp("zoo") / "zoo")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def steady(server: EmbeddedServer, zoo: Path) -> Iterator[Pool]:
    """A pool with one worker that no test disturbs."""
    pool = Pool(server, zoo, "steady")
    pool.start()
    yield pool
    pool.end()


@pytest.fixture
def pool(server: EmbeddedServer, zoo: Path, request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A pool for one test, without a worker at first."""
    made = Pool(server, zoo, request.node.name[:60].replace("[", "-").replace("]", ""))
    yield made
    made.end()


@pytest.fixture(scope="session")
def expected(zoo: Path) -> dict[str, object]:
    """The certificate of LONG for an image of 0.503, by an undisturbed engine."""
    return undisturbed(zoo, "moody", Question(Gaussian(SIGMA), Fixed(n=20_000)), 0.503)
