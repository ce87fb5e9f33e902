"""Traces over HTTP, queue and worker, by OpenTelemetry.

The record of a certification keeps the trace context of its request. A worker makes two spans of it, children of the
span of the request: the wait in the queue, and the stretch from its begin to its end. A certification that another
worker goes on with has one such stretch for each of them that lived to tell.
"""

from __future__ import annotations

import os
import threading

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from smoothcert import __version__
from store.record import Record

FAREWELL_S = 2.0
"""Seconds that the last spans have to be sent when a process ends; a collector that is away must not hold it up."""
NANO = 1_000_000_000
_W3C = TraceContextTextMapPropagator()


class Stretch:
    """The work of one worker on a certification."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def end(self, outcome: str, *, samples: int, evaluations: int) -> None:
        """End the span; a second end has no effect."""
        if self._span.is_recording():
            numbers = {"smoothcert.samples": samples, "smoothcert.evaluations": evaluations}
            self._span.set_attributes({"smoothcert.outcome": outcome, **numbers})
            if outcome == "failed":
                self._span.set_status(Status(StatusCode.ERROR))
            self._span.end()


class Traces:
    """The spans of one process."""

    def __init__(self, processor: SpanProcessor, service: str) -> None:
        name = os.environ.get("OTEL_SERVICE_NAME") or service
        resource = Resource.create({SERVICE_NAME: name, SERVICE_VERSION: __version__})
        self.provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self.provider.add_span_processor(_NoQueries())
        self.provider.add_span_processor(processor)
        self._tracer = self.provider.get_tracer("smoothcert", __version__)

    @classmethod
    def exported(cls, endpoint: str | None, service: str) -> Traces:
        """Traces that are sent over OTLP; without an endpoint, to where the variables of OpenTelemetry say."""
        return cls(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)), service)

    @staticmethod
    def traceparent() -> str:
        """The context of the span under way, in the form of W3C; empty if there is none."""
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        return carrier.get("traceparent", "")

    def begin(self, record: Record, *, now: float) -> Stretch:
        """A worker begins or goes on with a certification; the first one ends its wait."""
        parent = _W3C.extract({"traceparent": record.traceparent}, context=Context())
        attributes: dict[str, str | int] = {
            "smoothcert.certification": record.id,
            "smoothcert.ensemble": record.ensemble,
            "smoothcert.images": record.images,
            "smoothcert.queue": record.queue,
            "smoothcert.worker": record.worker,
        }
        if record.started_at == now:
            began = int(record.created_at * NANO)
            wait = self._tracer.start_span("wait", parent, attributes=attributes, start_time=began)
            wait.end(max(began, int(now * NANO)))
        return Stretch(self._tracer.start_span("certify", parent, SpanKind.CONSUMER, attributes))

    def close(self) -> None:
        """Send what is left, for a while."""
        closing = threading.Thread(target=self.provider.shutdown, name="last spans", daemon=True)
        closing.start()
        closing.join(FAREWELL_S)


class _NoQueries(SpanProcessor):
    """Keeps query strings out of traces, as they are kept out of logs: they may contain a question and its metadata."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if span.attributes and "url.query" in span.attributes:
            span.set_attribute("url.query", "REDACTED")
