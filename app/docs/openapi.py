"""The OpenAPI document. FastAPI contributes the routes and their parameters, this module the bodies and responses.

FastAPI does not know the bodies and responses, because `app.http.body` parses and `app.answers` writes them. OPERATIONS
describes them, with one entry for each operation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from app import metrics
from app.docs import examples
from app.http import body, errors, headers, multipart, npy
from smoothcert.attestation.keys import KeySet
from smoothcert.certificate import Certificate
from smoothcert.certification import Certification, CertificationPage
from smoothcert.choices import NoiseList, ProcedureList
from smoothcert.prediction import PredictionAnswer
from smoothcert.problem import KINDS, Problem
from smoothcert.published import (
    EnsembleList,
    ExaminationAnswer,
    Health,
    PlanAnswer,
    Readiness,
    ServedEnsemble,
    VerificationAnswer,
    Version,
)
from smoothcert.request import CertificationRequest, PlanRequest, PostedRequest

TITLE = "smoothcert"
VERSION = "1"
DESCRIPTION = """Is this classifier's answer on this image provably stable within radius r?

Post images, get certificates. Every error is a problem (RFC 9457, `application/problem+json`) whose `code` is stable.
Every answer has an `X-Request-ID`: the one that the request has, or a new one."""

JSON = body.JSON
Schema = dict[str, Any]


@dataclass(frozen=True)
class DocumentedAnswer:
    """A response of an operation that is not a problem."""

    description: str
    model: type[BaseModel] | None = None
    examples: tuple[str, ...] = ()
    """Names of entries of `examples.document()`."""
    headers: tuple[str, ...] = ()
    content: Mapping[str, Schema] = field(default_factory=dict)
    """The content of a response in other types than that of the model, by media type."""


@dataclass(frozen=True)
class Operation:
    """The body and the responses of an operation."""

    answers: Mapping[int, DocumentedAnswer]
    problems: tuple[str, ...]
    parameters: tuple[Schema, ...] = ()
    takes: type[BaseModel] | None = None
    file: bool = False
    """Whether the body is a file of any content."""


AUTHORISED = ("unauthorized", "too_many_failures", "too_many_requests", "misdirected", "cross_site")
ALWAYS = ("bad_request", "head_too_large", "internal")
"""Codes that every operation can answer; the HTTP parser sends the first two before an operation is reached."""
BODY = (
    "malformed_json",
    "too_slow",
    "too_large",
    "unsupported_media_type",
    "invalid_request",
    "overloaded",
)
QUESTION = ("unknown_ensemble", "ensemble_not_loaded", "noise_mismatch", "procedure_mismatch", "too_many_samples")
SUBMISSION = (
    *AUTHORISED,
    *BODY,
    *QUESTION,
    "malformed_multipart",
    "malformed_npy",
    "idempotency_conflict",
    "expired",
    "too_many_images",
    "invalid_image",
    "image_off_grid",
    "not_permitted",
    "queue_full",
    "too_many_certifications",
    "storage_full",
    "unavailable",
    "unconfirmed",
)
HEADERS = {
    "Location": "The path of the certification.",
    "Retry-After": "Seconds after which to try again.",
    "Preference-Applied": "The wait that was granted.",
    "Idempotency-Replayed": "`true` if the Idempotency-Key was used before, for the same request.",
}
NPY_REQUEST: Schema = {
    "name": "request",
    "in": "query",
    "required": False,
    "description": "The question as JSON, if the body is an npy array.",
    "schema": {"type": "string", "default": "{}", "example": '{"radius": 0.25, "procedure": "sequential"}'},
}

OPERATIONS: dict[str, Operation] = {
    "create_certification": Operation(
        answers={
            200: DocumentedAnswer(
                "The certification has ended within the wait.", Certification, ("succeeded",), tuple(HEADERS)
            ),
            202: DocumentedAnswer(
                "The certification waits or is running.", Certification, ("accepted",), tuple(HEADERS)
            ),
        },
        problems=(*SUBMISSION, "radius_out_of_reach"),
        parameters=(headers.PREFER, headers.IDEMPOTENCY_KEY, NPY_REQUEST),
        takes=PostedRequest,
    ),
    "predict": Operation(
        answers={
            200: DocumentedAnswer(
                "The certification has ended within the wait.", PredictionAnswer, ("predicted",), tuple(HEADERS)
            ),
            202: DocumentedAnswer(
                "The certification waits or is running.", PredictionAnswer, ("predicting",), tuple(HEADERS)
            ),
        },
        problems=SUBMISSION,
        parameters=(headers.PREFER, headers.IDEMPOTENCY_KEY, NPY_REQUEST),
        takes=PostedRequest,
    ),
    "get_certification": Operation(
        answers={
            200: DocumentedAnswer(
                "The certification at this moment.",
                Certification,
                ("succeeded", "accepted"),
                ("Preference-Applied",),
                content={headers.ATTESTATION: {"schema": {"type": "string"}, "example": examples.attestation()}},
            )
        },
        problems=(
            *AUTHORISED,
            "unknown_certification",
            "not_acceptable",
            "still_running",
            "expired",
            "archive_damaged",
            "unavailable",
        ),
        parameters=(headers.PREFER,),
    ),
    "follow_certification": Operation(
        answers={
            200: DocumentedAnswer(
                "Events `status`, `certificate`, `progress` and, at the end, `completed`.",
                content={headers.EVENT_STREAM: {"schema": {"type": "string"}, "example": examples.events()}},
            ),
            204: DocumentedAnswer("The client has received `completed`; no further event follows."),
        },
        problems=(
            *AUTHORISED,
            "unknown_certification",
            "expired",
            "not_acceptable",
            "invalid_request",
            "archive_damaged",
            "unavailable",
        ),
        parameters=(headers.LAST_EVENT_ID,),
    ),
    "cancel_certification": Operation(
        answers={
            200: DocumentedAnswer("The certification was waiting and is canceled.", Certification, ("canceled",)),
            202: DocumentedAnswer("The certification is running and will stop.", Certification, ("canceling",)),
        },
        problems=(*AUTHORISED, "unknown_certification", "already_ended", "archive_damaged", "unavailable"),
    ),
    "delete_certification": Operation(
        answers={204: DocumentedAnswer("The certification is deleted.")},
        problems=(*AUTHORISED, "unknown_certification", "still_running", "unavailable"),
    ),
    "list_certifications": Operation(
        answers={200: DocumentedAnswer("A page of certifications.", CertificationPage, ("page",))},
        problems=(*AUTHORISED, "invalid_request", "unavailable"),
    ),
    "list_ensembles": Operation(
        answers={200: DocumentedAnswer("All ensembles.", EnsembleList, ("ensembles",))},
        problems=(*AUTHORISED, "unavailable"),
    ),
    "get_ensemble": Operation(
        answers={200: DocumentedAnswer("The ensemble.", ServedEnsemble, ("ensemble",))},
        problems=(*AUTHORISED, "unknown_ensemble", "ensemble_not_loaded", "unavailable"),
    ),
    "list_procedures": Operation(
        answers={200: DocumentedAnswer("All of them.", ProcedureList, ("procedures",))}, problems=AUTHORISED
    ),
    "list_noises": Operation(
        answers={200: DocumentedAnswer("All of them.", NoiseList, ("noises",))}, problems=AUTHORISED
    ),
    "plan": Operation(
        answers={200: DocumentedAnswer("The plan: whether the radius can be proved, and why.", PlanAnswer, ("plan",))},
        problems=(*AUTHORISED, *BODY, *QUESTION, "unavailable"),
        takes=PlanRequest,
    ),
    "verify": Operation(
        answers={
            200: DocumentedAnswer(
                "Whether the certificate is consistent, and what is not.", VerificationAnswer, ("consistent", "altered")
            )
        },
        problems=(
            *AUTHORISED,
            *(code for code in BODY if code != "invalid_request"),
            "invalid_certificate",
            "unavailable",
        ),
        takes=Certificate,
    ),
    "examine": Operation(
        answers={200: DocumentedAnswer("What was found out, in words.", ExaminationAnswer, ("examined",))},
        problems=(
            "too_slow",
            "too_large",
            "unsupported_media_type",
            "overloaded",
            "unavailable",
            "too_many_requests",
            "cross_site",
            "misdirected",
        ),
        file=True,
    ),
    "list_signing_keys": Operation(
        answers={200: DocumentedAnswer("The keys, the one that signs first.", KeySet, ("signing_keys",))},
        problems=(),
    ),
    "health": Operation(answers={200: DocumentedAnswer("The process answers.", Health, ("healthy",))}, problems=()),
    "readiness": Operation(
        answers={200: DocumentedAnswer("Redis answers and workers are alive.", Readiness, ("ready",))},
        problems=("unavailable", "not_ready"),
    ),
    "metrics": Operation(
        answers={
            200: DocumentedAnswer(
                "Prometheus' text format.", content={metrics.MEDIA_TYPE: {"schema": {"type": "string"}}}
            )
        },
        problems=AUTHORISED,
    ),
    "version": Operation(answers={200: DocumentedAnswer("The versions.", Version, ("version",))}, problems=()),
}


def text(app: FastAPI) -> bytes:
    """The document as JSON, written once for each application."""
    if not hasattr(app.state, "openapi_text"):
        app.state.openapi_text = json.dumps(document(app), separators=(",", ":")).encode()
    written: bytes = app.state.openapi_text
    return written


def document(app: FastAPI) -> dict[str, Any]:
    """The document, generated once for each application."""
    if app.openapi_schema is None:
        app.openapi_schema = _document(app)
    return app.openapi_schema


def _document(app: FastAPI) -> dict[str, Any]:
    generated = get_openapi(title=TITLE, version=VERSION, description=DESCRIPTION, routes=app.routes)
    schemas = _Schemas()
    for operations in generated["paths"].values():
        for operation in operations.values():
            _describe(operation, OPERATIONS[operation["operationId"]], schemas)
    generated["components"]["schemas"] = schemas.definitions
    return generated


class _Schemas:
    """The schemas of all models: for validation if requests have them, for serialization if responses do."""

    def __init__(self) -> None:
        taken = {operation.takes for operation in OPERATIONS.values() if operation.takes} | {CertificationRequest}
        answers = [answer for operation in OPERATIONS.values() for answer in operation.answers.values()]
        given = {answer.model for answer in answers if answer.model} | {Problem}
        modes: list[tuple[type[BaseModel], JsonSchemaMode]] = []
        modes += [(model, "validation") for model in sorted(taken, key=_name)]
        modes += [(model, "serialization") for model in sorted(given, key=_name)]
        self._references, schemas = models_json_schema(modes, ref_template="#/components/schemas/{model}")
        self.definitions = schemas["$defs"]

    def taken(self, model: type[BaseModel]) -> Schema:
        return self._references[model, "validation"]

    def given(self, model: type[BaseModel]) -> Schema:
        return self._references[model, "serialization"]


def _name(model: type[BaseModel]) -> str:
    return model.__name__


def _describe(operation: dict[str, Any], description: Operation, schemas: _Schemas) -> None:
    operation["summary"], _, operation["description"] = operation["description"].partition("\n")
    answers = {str(status): _answer(answer, schemas) for status, answer in description.answers.items()}
    operation["responses"] = answers | _problems([*description.problems, *ALWAYS], schemas)
    if "security" in operation:
        operation["security"] = [*operation["security"], {}]  # a service without keys needs none
    if description.parameters:
        operation["parameters"] = [*operation.get("parameters", []), *description.parameters]
    if description.file:
        any_content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": False, "content": any_content}  # an empty file is answered, too
    if description.takes is PostedRequest:
        operation["requestBody"] = _posted(schemas)
    elif description.takes:
        example = examples.document()["certificate"] if description.takes is Certificate else examples.PLANNED
        content = {JSON: {"schema": schemas.taken(description.takes), "example": example}}
        operation["requestBody"] = {"required": True, "content": content}


def _answer(answer: DocumentedAnswer, schemas: _Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.description}
    if answer.headers:
        described["headers"] = {
            name: {"description": HEADERS[name], "schema": {"type": "string"}} for name in answer.headers
        }
    if answer.model:
        known = examples.document()
        shown = {name: {"value": known[name]} for name in answer.examples}
        described["content"] = {JSON: {"schema": schemas.given(answer.model), "examples": shown}}
    if answer.content:
        described["content"] = {**described.get("content", {}), **answer.content}
    return described


def _problems(codes: Iterable[str], schemas: _Schemas) -> dict[str, Any]:
    """The problems of an operation, grouped by status."""
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(KINDS[code].status, []).append(code)
    return {str(status): _problem(by_status[status], schemas) for status in sorted(by_status)}


def _problem(codes: list[str], schemas: _Schemas) -> dict[str, Any]:
    shown = {code: {"value": examples.problem(code)} for code in codes}
    content = {errors.MEDIA_TYPE: {"schema": schemas.given(Problem), "examples": shown}}
    return {"description": "; ".join(f"`{code}`: {KINDS[code].title}" for code in codes), "content": content}


def _posted(schemas: _Schemas) -> dict[str, Any]:
    """The three formats of a posted request."""
    form = {
        "type": "object",
        "required": ["request", "images"],
        "properties": {
            "request": schemas.taken(CertificationRequest),
            "images": {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}},
        },
        "additionalProperties": False,
    }
    return {
        "required": True,
        "content": {
            JSON: {
                "schema": schemas.taken(PostedRequest),
                "examples": {
                    "file": {"value": examples.POSTED},
                    "tensor": {"value": {**examples.QUESTION, "images": [examples.TENSOR]}},
                },
            },
            multipart.MEDIA_TYPE: {
                "schema": form,
                "encoding": {
                    "request": {"contentType": JSON},
                    "images": {"contentType": "image/png, image/jpeg, image/webp"},
                },
                "example": {"request": examples.QUESTION, "images": ["(a file)"]},
            },
            npy.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary", "description": "[N, C, H, W]"}},
        },
    }
