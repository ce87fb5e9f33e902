"""Metrics in the text format of Prometheus: the requests of this process, and what all workers count in Redis."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.types import Scope

from app.redis.statistics import Statistics
from store.presence import Presence
from store.statistics import histogram

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# By the name of the counter in Redis: the label that its field has after the colon, and a description.
_COUNTERS = {
    "certifications": ("outcome", "Certifications that have ended."),
    "certificates": ("decision", "Certificates."),
    "samples": ("", "Noise samples of finished certificates."),
    "evaluations": ("", "Forward passes of members for finished certificates."),
    "webhooks": ("outcome", "Attempts to deliver a webhook."),
    "archive": ("outcome", "Certifications written to the archive, erased from it, and attempts that failed."),
}
_HISTOGRAMS = {
    "duration": "Seconds from the request to the end of a certification.",
    "wait": "Seconds from the request to the start of a certification.",
}


class RequestMetrics:
    """Counts and durations of the requests that this process has answered."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("smoothcert_http_requests", "Requests answered.", labels, registry=self._registry)
        self._seconds = Histogram(
            "smoothcert_http_seconds", "Seconds until a response was complete.", ("route",), registry=self._registry
        )

    def count(self, scope: Scope, status: int, seconds: float) -> None:
        """Count one request under its route's pattern: with its path, every certification would be a series."""
        route = getattr(scope.get("route"), "path_format", "none")
        self._requests.labels(scope["method"] if route != "none" else "any", route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)


def shared(statistics: Statistics | None) -> bytes:
    """The metrics that all processes share; None for statistics says that Redis does not answer."""
    registry = CollectorRegistry()
    registry.register(_Shared(statistics))
    return generate_latest(registry)


class _Shared(Collector):
    def __init__(self, statistics: Statistics | None) -> None:
        self._statistics = statistics

    def collect(self) -> Iterator[Metric]:
        yield _gauge("redis_up", "Whether Redis answers.", {"": float(self._statistics is not None)})
        if self._statistics is not None:
            yield from _counters(self._statistics.counters)
            yield from _histograms(self._statistics.counters)
            yield from _gauges(self._statistics)


def _counters(counters: Mapping[str, float]) -> Iterator[Metric]:
    for name, (label, description) in _COUNTERS.items():
        family = CounterMetricFamily(f"smoothcert_{name}", description, labels=[label] if label else [])
        for field, value in counters.items():
            kind, _, which = field.partition(":")
            if kind == name:
                family.add_metric([which] if label else [], value)
        yield family


def _histograms(counters: Mapping[str, float]) -> Iterator[Metric]:
    for name, description in _HISTOGRAMS.items():
        buckets, total = histogram(name, counters)
        yield HistogramMetricFamily(f"smoothcert_certification_{name}_seconds", description, buckets, total)


def _gauges(statistics: Statistics) -> Iterator[Metric]:
    workers, now = statistics.roster.workers, time.time()
    yield _gauge("queue_depth", "Certifications that wait in the queue.", statistics.waiting, "pool")
    yield _gauge("webhooks_waiting", "Webhooks that are not delivered yet.", {"": float(statistics.deliveries)})
    behind = {"": float(statistics.unarchived)}
    yield _gauge("archive_waiting", "Certifications that the archive lacks or has to erase.", behind)
    for name, description, values in (
        (
            "worker_heartbeat_age_seconds",
            "Seconds since the last heartbeat of a worker.",
            {_label(w): now - w.beat_at for w in workers},
        ),
        ("worker_live", "Certifications that a worker has under way.", {_label(w): w.live for w in workers}),
        (
            "worker_batch_fill",
            "The mean share of a worker's batches that is filled with samples.",
            {_label(w): w.fill for w in workers},
        ),
    ):
        yield _gauge(name, description, values, "worker")


def _label(worker: Presence) -> str:
    """The random part of a worker's name: the rest is the name of its host, which is not for every key."""
    return worker.name.rpartition("-")[2]


def _gauge(name: str, description: str, values: Mapping[str, float], label: str = "") -> Metric:
    family = GaugeMetricFamily(f"smoothcert_{name}", description, labels=[label] if label else [])
    for which, value in values.items():
        family.add_metric([which] if label else [], value)
    return family
