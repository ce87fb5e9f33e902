"""Whatever the OpenAPI document allows, and much that it does not, is sent to a real service by schemathesis.

No 5xx, every answer as the document describes it: status, headers, content type, schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.checks import positive_data_acceptance

from app import npy, openapi
from app.embedded import EmbeddedServer
from app.main import create_app
from app.settings import Settings
from tests.service.api import Api, question
from tests.service.player import Player

MORE_THAN_A_SCHEMA_CAN_SAY = {
    "POST /v1/certifications",  # an image that is an image, of the size that the ensemble takes
    "GET /v1/certifications",  # a cursor that an earlier page gave
    "POST /v1/plan",  # stages that increase, a radius where the procedure needs one
    "POST /v1/verify",  # every field given, each number written in the one way in which certificates write it
}
"""What fits the schema may be refused here all the same: a positive answer is not required for it."""


class Target:
    """A service with one ensemble and a certification that has ended."""

    def __init__(self, api: Api, player: Player) -> None:
        self.url = f"http://127.0.0.1:{api.port}"
        self.certification = api.client.post("/v1/certifications", json=question(player.ensemble)).json()["id"]
        player.play()


@pytest.fixture(scope="module")
def target(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    url = valkey.url.replace("db=0", "db=3")
    player = Player(url)
    player.announce()
    with Api(url, tmp_path_factory.mktemp("schema"), queue_length=100_000, active_certifications=100_000) as api:
        yield Target(api, player)
        assert "traceback" not in api.log.read_text()


@schemathesis.serializer(npy.MEDIA_TYPE)
def _as_it_is(_: schemathesis.SerializationContext, value: Any) -> Any:
    return value


DOCUMENT = openapi.document(create_app(Settings()))
schema = schemathesis.openapi.from_dict(DOCUMENT)


def test_the_document_is_the_one_that_is_served(target: Target) -> None:
    assert httpx.get(f"{target.url}/openapi.json").json() == DOCUMENT


@schema.parametrize()
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_the_document_says(case: schemathesis.Case[Any], target: Target) -> None:
    if case.meta and case.meta.generation.mode is GenerationMode.POSITIVE and "id" in case.path_parameters:
        case.path_parameters["id"] = target.certification  # one that exists, half of the time
    excluded = [positive_data_acceptance] if case.operation.label in MORE_THAN_A_SCHEMA_CAN_SAY else []
    case.call_and_validate(base_url=target.url, timeout=20, excluded_checks=excluded)
