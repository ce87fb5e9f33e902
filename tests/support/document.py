"""The OpenAPI document as schemathesis reads it; both are made when a test needs them, not by every process."""

from __future__ import annotations

from functools import cache
from typing import Any

import schemathesis
from schemathesis.checks import positive_data_acceptance
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import response_schema_conformance

from app.docs import openapi
from app.http import npy
from app.main import create_app
from app.settings import ApiSettings

MORE_THAN_A_SCHEMA_CAN_SAY = {
    "POST /v1/certifications",  # the image must be one, of the size that the ensemble takes
    "POST /v1/predictions",  # the same, and no other procedure than `predict`
    "GET /v1/certifications",  # the cursor must be from an earlier page
    "POST /v1/plan",  # stages must increase, and some procedures need a radius
    "POST /v1/examine",  # any file is answered, except one with too many values
    "POST /v1/verify",  # all fields are required, and numbers must be written as certificates write them
}
"""Operations that may refuse what fits the schema, so that a positive response is not required."""


@schemathesis.serializer(npy.MEDIA_TYPE)
def _as_it_is(_: schemathesis.SerializationContext, value: Any) -> Any:
    return value


@cache
def document() -> dict[str, Any]:
    return openapi.document(create_app(ApiSettings()))


@cache
def schema() -> BaseSchema:
    return schemathesis.openapi.from_dict(document())


def excluded_checks(operation: Any) -> list[Any]:
    """The checks of schemathesis that an operation need not pass."""
    excluded: list[Any] = [positive_data_acceptance] if operation.label in MORE_THAN_A_SCHEMA_CAN_SAY else []
    if operation.path.endswith("/events"):  # schemathesis takes the schema of a stream for that of each event
        excluded.append(response_schema_conformance)
    return excluded
