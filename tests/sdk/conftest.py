"""A whole service for the tests of the client: an embedded Valkey, `python -m app`, a worker with small networks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from smoothcert import Client
from tests.support.attested import keyring
from tests.support.rogue import Rogue
from tests.support.whole import whole_service
from tests.support.zoo import make_zoo


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the service."""
    folder = tmp_path_factory.mktemp("sdk")
    keyring("the service").write(folder / "keyring")
    with whole_service(folder, make_zoo(folder / "zoo"), {"keyring_file": str(folder / "keyring")}) as api:
        yield f"http://127.0.0.1:{api.port}"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the settings of the user who runs the tests."""
    for name in ("SMOOTHCERT_URL", "SMOOTHCERT_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def client(service: str) -> Iterator[Client]:
    with Client(service) as client:
        yield client


@pytest.fixture
def rogue(service: str) -> Iterator[Rogue]:
    with Rogue(service) as running:
        yield running
