"""The API, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from app.docs import openapi
from app.executor import Calculator
from app.http import errors
from app.http.authentication import Door
from app.http.body import Bodies
from app.http.middleware import Envelope
from app.http.origin import Visitors
from app.metrics import Traffic
from app.redis.queue import Queue
from app.redis.retry_after import Turns
from app.routes import certifications, ensembles, operation, pages, planning, procedures, verification
from app.service import Service
from app.settings import Settings
from store.transitions import Limits

ROUTERS = (certifications, ensembles, procedures, planning, verification, operation, pages)
EXPOSED = ("Idempotency-Replayed", "Location", "Preference-Applied", "Retry-After", "X-Request-ID")


def create_app(settings: Settings) -> FastAPI:
    """The application; it reaches for Redis when it is first asked something, and starts without it."""
    limits = Limits(waiting=settings.queue_length, active=settings.active_certifications)
    service = Service(
        settings=settings,
        queue=Queue(settings.redis_address, limits, result_ttl=settings.result_ttl),
        traffic=Traffic(),
        turns=Turns(),
        bodies=Bodies(settings.bodies_mb * 1_000_000),
        planner=Calculator(),
        verifier=Calculator(),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.queue.listening():
            yield
        service.planner.close()
        service.verifier.close()
        service.bodies.close()

    app = FastAPI(
        title=openapi.TITLE,
        version=openapi.VERSION,
        lifespan=lifespan,
        openapi_url=None,  # ours is served by routes/pages.py
        redirect_slashes=False,
    )
    app.state.service, app.state.door = service, Door(settings.keys)
    errors.install(app)
    for module in ROUTERS:
        app.include_router(module.router)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=EXPOSED,
        )
    if not settings.keys:
        app.add_middleware(Visitors, names=settings.names, origins=settings.origins)
    app.add_middleware(Envelope, traffic=service.traffic)  # the last one added is the outermost
    return app
