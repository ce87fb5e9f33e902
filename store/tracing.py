"""Whether traces are on, which they are where an address for them is configured. Otherwise nothing is imported."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from smoothcert.errors import SmoothcertError
from store.settings import RedisSettings

if TYPE_CHECKING:
    from store.traces import Traces

STANDARD = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""The variables of OpenTelemetry that name the address; its exporter reads them by itself."""


class TracingError(SmoothcertError, ValueError):
    """Traces are configured, and cannot be made."""


def traces_of(settings: RedisSettings, service: str) -> Traces | None:
    """The traces of a process; None where they are off. `service` is its name unless OTEL_SERVICE_NAME is set."""
    configured = settings.otlp_endpoint or any(os.environ.get(name) for name in STANDARD)
    if not configured or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from store.traces import Traces
    except ImportError as error:
        raise TracingError(f"traces need packages that are missing: pip install --group traces ({error})") from error
    endpoint = f"{settings.otlp_endpoint.rstrip('/')}/v1/traces" if settings.otlp_endpoint else None
    return Traces.exported(endpoint, service)
