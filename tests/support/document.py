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
    "POST /v1/certifications",  # an image that is an image, of the size that the ensemble takes
    "POST /v1/predictions",  # the same, and no other procedure than `predict`
    "GET /v1/certifications",  # a cursor that an earlier page gave
    "POST /v1/plan",  # stages that increase, a radius where the procedure needs one
    "POST /v1/examine",  # any file is answered, but one with too many values
    "POST /v1/verify",  # every field given, each number written in the one way in which certificates write it
}
"""What fits the schema may be refused here all the same: a positive answer is not required for it."""


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
    """Those of schemathesis that an operation need not pass."""
    excluded: list[Any] = [positive_data_acceptance] if operation.label in MORE_THAN_A_SCHEMA_CAN_SAY else []
    if operation.path.endswith("/events"):  # schemathesis takes the schema of a stream for that of each event
        excluded.append(response_schema_conformance)
    return excluded
