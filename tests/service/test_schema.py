"""schemathesis sends a real service many requests that the OpenAPI document allows, and many that it does not.

There must be no 5xx, and every response must be as the document describes it: status, headers, content type, schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.schemas import BaseSchema

from app.local.embedded import EmbeddedServer
from tests.service import database
from tests.support import document
from tests.support.api import ANSWER_S, Api, question
from tests.support.document import excluded_checks
from tests.support.player import Player


class Target:
    """A service with one ensemble and a certification that has ended."""

    def __init__(self, api: Api, player: Player) -> None:
        self.url = f"http://127.0.0.1:{api.port}"
        self._api, self._player = api, player
        self.session = requests.Session()  # a session for each case would take longer than the request
        self.session.trust_env = False
        self.certification = self.another()

    def another(self) -> str:
        """Another certification that has ended."""
        certification = self._api.client.post("/v1/certifications", json=question(self._player.ensemble)).json()
        self._player.play()
        return str(certification["id"])


@pytest.fixture(scope="module")
def target(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    url = database(valkey.url, 3)
    player = Player(url)
    player.announce()
    with Api(url, tmp_path_factory.mktemp("schema"), queue_length=100_000, active_certifications=100_000) as api:
        yield Target(api, player)
        assert "traceback" not in api.log.read_text()


@pytest.fixture(scope="module")
def schema() -> BaseSchema:
    return document.schema()


operations = schemathesis.pytest.from_fixture("schema")
"""Each becomes a subtest when the test runs: were they tests, every process would make the cases of all of them."""


def test_the_document_is_the_one_that_is_served(target: Target) -> None:
    assert httpx2.get(f"{target.url}/openapi.json").json() == document.document()


@operations.parametrize()
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_the_document_says(case: schemathesis.Case[Any], target: Target) -> None:
    if case.meta and case.meta.generation.mode is GenerationMode.POSITIVE and "id" in case.path_parameters:
        # Half of the cases name a certification that exists. No other operation needs one that is deleted here.
        case.path_parameters["id"] = target.another() if case.operation.method == "delete" else target.certification
    case.call_and_validate(
        base_url=target.url,
        session=target.session,
        timeout=ANSWER_S,
        excluded_checks=excluded_checks(case.operation),
    )
