"""Every error becomes a problem (RFC 9457), whether our code, FastAPI or Starlette raised it.

ProblemError                 a problem with a code from smoothcert.problem.KINDS
├── UnavailableError         Redis does not answer; 503
├── UnconfirmedError         replicas of Redis do not confirm what was written; 503
└── StorageFullError         Redis has no room for new work; 503 (app/redis/memory.py)
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from smoothcert.errors import MOST_NAMED, explain, place_of, shown, worded
from smoothcert.problem import KINDS, FieldError, Problem, type_uri

MEDIA_TYPE = "application/problem+json"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
MOST_ERRORS = 20
"""The number of wrong fields that an answer lists."""


class ProblemError(Exception):
    """Ends a request with the problem of this code; the detail has the value seen and what is accepted."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Iterable[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail, self.errors = code, detail, tuple(errors)
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["Retry-After"] = str(max(1, math.ceil(retry_after)))


class UnavailableError(ProblemError):
    """Redis cannot be reached, or answers with an error."""

    def __init__(self) -> None:
        super().__init__("unavailable", "the queue does not answer; try again in a moment", retry_after=1)


class UnconfirmedError(ProblemError):
    """Too few replicas have a certification: it may be lost with the server, so it does not count as accepted."""

    def __init__(self, confirmed: int, wanted: int) -> None:
        detail = (
            f"{confirmed} of {wanted} replicas have confirmed the certification, which may run or be lost; "
            "send it again with the same Idempotency-Key"
        )
        super().__init__("unconfirmed", detail, retry_after=1)


def invalid(field: str, message: str, *, code: str = "invalid_request") -> ProblemError:
    """The problem that one field is wrong."""
    return ProblemError(code, f"{field}: {message}", errors=[FieldError(field=field, message=message)])


def invalid_fields(error: ValidationError | RequestValidationError, *, code: str = "invalid_request") -> ProblemError:
    """The problem that pydantic found; each message quotes the value seen."""
    if isinstance(error, ValidationError) and error.error_count() > MOST_NAMED:
        return ProblemError(code, explain(error))
    found = [_field_error(each) for each in error.errors()[:MOST_ERRORS]]
    detail = "; ".join(f"{each.field}: {each.message}" if each.field else each.message for each in found)
    return ProblemError(code, detail, errors=found)


def _field_error(each: ErrorDetails | Any) -> FieldError:
    places = [place for place in each["loc"] if place not in ("body", "query", "header", "path")]
    return FieldError(field=place_of(places), message=worded(each))


def problem_response(scope: Scope, error: ProblemError) -> Response:
    kind = KINDS[error.code]
    problem = Problem(
        type=type_uri(error.code),
        title=kind.title,
        status=kind.status,
        detail=error.detail,
        code=error.code,
        request_id=scope.get("state", {}).get("request_id", ""),
        errors=error.errors,
    )
    # ASCII: a quotation from a request may contain half a surrogate pair, which UTF-8 cannot encode
    body = json.dumps(problem.model_dump()).encode()
    return Response(body, status_code=kind.status, media_type=MEDIA_TYPE, headers=error.headers)


def install(app: FastAPI) -> None:
    """Answer the exceptions that have a meaning; `ExchangeMiddleware` answers all others."""

    @app.exception_handler(ProblemError)
    async def _ours(request: Request, error: ProblemError) -> Response:
        return problem_response(request.scope, error)

    @app.exception_handler(RequestValidationError)
    async def _of_fastapi(request: Request, error: RequestValidationError) -> Response:
        return problem_response(request.scope, invalid_fields(error))

    @app.exception_handler(HTTPException)
    async def _of_starlette(request: Request, error: HTTPException) -> Response:
        return problem_response(request.scope, _translated(app, request.scope, error))


def _translated(app: FastAPI, scope: Scope, error: HTTPException) -> ProblemError:
    method, path = scope["method"], shown(scope["path"])
    if error.status_code == HTTPStatus.NOT_FOUND:
        return ProblemError("not_found", f"there is nothing at {path}; /docs lists all paths")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(_methods_at(app, scope))
        return ProblemError(
            "method_not_allowed",
            f"the method of {path} must be one of {allowed}; got {method}",
            headers={"Allow": allowed},
        )
    return ProblemError("bad_request", str(error.detail))


def _methods_at(app: FastAPI, scope: Scope) -> list[str]:
    """All methods of a path; Starlette names only those of the first route."""

    def taken(method: str) -> bool:
        return any(route.matches({**scope, "method": method})[0] is Match.FULL for route in app.router.routes)

    return [method for method in METHODS if taken(method)]
