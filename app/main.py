"""`create_app` makes the FastAPI application of the service from its settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware

from app.docs import openapi
from app.http import errors
from app.http.middleware import PROBES, ExchangeMiddleware
from app.http.origin import OriginCheck
from app.routes import (
    certifications,
    ensembles,
    examination,
    operation,
    pages,
    planning,
    predictions,
    procedures,
    verification,
)
from app.service import Service
from app.settings import ApiSettings

if TYPE_CHECKING:
    from store.traces import Traces

ROUTERS = (certifications, predictions, ensembles, procedures, planning, verification, examination, operation, pages)
EXPOSED = ("Idempotency-Replayed", "Location", "Preference-Applied", "Retry-After", "X-Request-ID")
"""Response headers that a page of an allowed origin may read."""

COMPRESSED = 2_000
"""The least bytes of an answer that is compressed if the client accepts gzip; shorter ones fit into a packet or two."""
COMPRESSION = 3
"""The level of gzip: the text of certificates shrinks well at any, and a low one takes less time."""


def create_app(settings: ApiSettings, traces: Traces | None = None) -> FastAPI:
    """The application. It connects to Redis at the first request, so it also starts without Redis."""
    service = Service.of(settings, traces)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with (
            service.queue.listening(),
            service.courier.running() if service.courier else nullcontext(),
            service.archivist.running() if service.archivist else nullcontext(),
        ):
            yield
        service.close()
        if traces is not None:
            await asyncio.to_thread(traces.close)

    app = FastAPI(
        title=openapi.TITLE,
        version=openapi.VERSION,
        lifespan=lifespan,
        openapi_url=None,  # routes/pages.py serves our own document
        redirect_slashes=False,
        telemetry=_telemetry(traces),
    )
    app.state.service, app.state.authenticator = service, service.authenticator
    errors.install(app)
    for module in ROUTERS:
        app.include_router(module.router)
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED, compresslevel=COMPRESSION)  # event streams stay plain
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=EXPOSED,
        )
    if not settings.keys:
        app.add_middleware(OriginCheck, names=settings.names, origins=settings.origins)
    app.add_middleware(ExchangeMiddleware, metrics=service.request_metrics)  # the last one added is the outermost
    return app


def _telemetry(traces: Traces | None) -> TelemetryConfig:
    """FastAPI makes the spans of requests; it must not look for exporters or metrics of its own."""
    config: TelemetryConfig = {"auto_configure": False, "metrics": False, "logs": False, "operation_spans": False}
    config["tracing"] = traces is not None
    if traces is not None:
        config["tracer_provider"] = traces.provider
        config["exclude"] = lambda scope: scope["path"] in PROBES
    return config
