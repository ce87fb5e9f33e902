"""Traces over HTTP, queue and worker: in memory within one process, and over OTLP between real processes."""

from __future__ import annotations

import ast
import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from app.local.embedded import EmbeddedServer
from app.main import create_app
from app.settings import ApiSettings
from store import keys
from store.record import Record
from store.settings import RedisSettings
from store.traces import Traces
from store.tracing import TracingError, traces_of
from tests.service import PATIENCE_S
from tests.support.api import ROOT, Api, npy
from tests.support.pool import Pool, flat
from tests.support.receiver import receiving
from tests.support.worker_networks import BREAK
from tests.support.zoo import ALLOWED, SIGMA, make_zoo
from workers.connection import RedisConnection
from workers.holdings import Holdings
from workers.settings import WorkerSettings
from workers.worker import CertificationWorker

URL = "/v1/certifications"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
ASKED = '{{"ensemble": "{}", "sigma": {}, "radius": 0.02, "procedure": "sequential", "metadata": {{"who": "secret"}}}}'


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_zoo(tmp_path_factory.mktemp("zoo") / "zoo")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path / "server") as own:
        yield own


@contextmanager
def worker_thread(url: str, zoo: Path, traces: Traces | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A worker in a thread of this process, which has the exporter."""
    settings = WorkerSettings(
        redis_url=url, zoo=zoo, ensembles="moody", threads=1, allowed_imports=",".join(ALLOWED), drain_s=5
    )
    monkeypatch.setattr("workers.worker.signal.signal", lambda *_: None)  # only the main thread may set handlers
    worker = CertificationWorker(RedisConnection(url), settings, Holdings.load(settings, "cpu"), traces)
    thread = threading.Thread(target=worker.serve)
    thread.start()
    try:
        yield
    finally:
        worker.leaving.set()
        thread.join()


async def certify(app: Any, *questions: tuple[float, dict[str, str]]) -> list[str]:
    """The ids of certifications that have ended, each of a grey image, submitted with these headers."""
    transport = httpx2.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        return [await _certified(client, flat(value), headers) for value, headers in questions]


async def _certified(client: httpx2.AsyncClient, image: Any, headers: dict[str, str]) -> str:
    question = {"request": ASKED.format("moody", SIGMA)}
    fields = {"Content-Type": "application/x-npy", "Prefer": "wait=60", **headers}
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        answer = await client.post(URL, content=npy(image), params=question, headers=fields)
        if answer.status_code == 200:
            return str(answer.json()["id"])
        assert answer.status_code == 404, answer.text  # the worker has not announced its ensemble yet
        await asyncio.sleep(0.05)
    raise AssertionError("no worker")


def by_name(spans: tuple[ReadableSpan, ...], certification: str) -> dict[str, ReadableSpan]:
    ours = [each for each in spans if each.attributes and each.attributes.get("smoothcert.certification")]
    return {each.name: each for each in ours if each.attributes["smoothcert.certification"] == certification}  # type: ignore[index]


def test_one_trace_leads_from_the_client_through_the_queue_to_the_worker(
    server: EmbeddedServer, zoo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, works = InMemorySpanExporter(), InMemorySpanExporter()
    app = create_app(ApiSettings(redis_url=server.url), Traces(SimpleSpanProcessor(requests), "api"))
    with worker_thread(server.url, zoo, Traces(SimpleSpanProcessor(works), "worker"), monkeypatch):
        good, bad = asyncio.run(certify(app, (0.9, {"traceparent": TRACEPARENT}), (BREAK, {})))

    spans = works.get_finished_spans()
    record = Record.read(RedisConnection(server.url).client.hgetall(keys.record(good)))
    assert record is not None
    version, trace, parent, flags = record.traceparent.split("-")
    assert (version, trace, flags) == ("00", TRACE, "01")
    (request,) = [
        each for each in requests.get_finished_spans() if each.context and f"{each.context.span_id:016x}" == parent
    ]
    assert (request.name, request.kind) == (f"POST {URL}", SpanKind.SERVER)
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == PARENT
    assert request.attributes is not None
    assert request.attributes["http.response.status_code"] == 200
    assert "secret" not in str(request.attributes)  # query strings are not exported

    found = by_name(spans, good)
    assert set(found) == {"wait", "certify"}
    for span in found.values():
        assert span.context is not None
        assert f"{span.context.trace_id:032x}" == TRACE
        assert span.parent is not None
        assert f"{span.parent.span_id:016x}" == parent
    assert found["wait"].start_time == int(record.created_at * 1e9)
    assert found["wait"].end_time == int(record.started_at * 1e9)
    work = found["certify"]
    assert work.attributes is not None
    assert (work.kind, work.attributes["smoothcert.outcome"]) == (SpanKind.CONSUMER, "succeeded")
    assert int(str(work.attributes["smoothcert.samples"])) > 0

    failed = by_name(spans, bad)["certify"]
    assert failed.status.status_code == StatusCode.ERROR
    assert failed.context is not None
    assert f"{failed.context.trace_id:032x}" != TRACE  # a request without a context begins its own trace


def test_without_a_setting_nothing_is_kept_or_made(
    server: EmbeddedServer, zoo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    settings = ApiSettings(redis_url=server.url)
    assert traces_of(settings, "x") is None
    with worker_thread(server.url, zoo, None, monkeypatch):
        (certification,) = asyncio.run(certify(create_app(settings), (0.9, {"traceparent": TRACEPARENT})))
    assert RedisConnection(server.url).client.hget(keys.record(certification), "traceparent") == b""


def test_spans_of_real_processes_arrive_at_a_collector(server: EmbeddedServer, zoo: Path, tmp_path: Path) -> None:
    with receiving() as collector:
        pool = Pool(server, zoo, "traced", otlp_endpoint=collector.origin, ensembles="trivial")
        pool.start()
        with Api(server.url, tmp_path, otlp_endpoint=f"{collector.origin}/") as api:
            fields = {"Content-Type": "application/x-npy", "Prefer": "wait=60", "traceparent": TRACEPARENT}
            question = {"request": ASKED.format("trivial", SIGMA)}
            answer = api.client.post(URL, content=npy(flat(0.9)), params=question, headers=fields)
            assert answer.status_code == 200, answer.text
        pool.processes[0].terminate()  # both send what is left when they end
        assert pool.processes[0].wait(60) == 0
        assert {each.path for each in collector.received} == {"/v1/traces"}
        found = {}
        for message in collector.received:
            for part in ExportTraceServiceRequest.FromString(message.body).resource_spans:
                names = {each.key: each.value.string_value for each in part.resource.attributes}
                for span in (span for scope in part.scope_spans for span in scope.spans):
                    if span.trace_id.hex() == TRACE:
                        found[span.name] = (names["service.name"], span)
    assert {name: service for name, (service, _) in found.items()} == {
        f"POST {URL}": "smoothcert-api",
        "wait": "smoothcert-worker",
        "certify": "smoothcert-worker",
    }
    request = found[f"POST {URL}"][1]
    assert request.parent_span_id.hex() == PARENT
    assert {found[name][1].parent_span_id for name in ("wait", "certify")} == {request.span_id}


def test_the_variables_of_opentelemetry_turn_it_on_and_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    made = traces_of(RedisSettings(), "x")
    assert made is not None
    made.provider.shutdown()
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert traces_of(RedisSettings(), "x") is None


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "store.traces")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(TracingError, match="pip install --group traces"):
        traces_of(RedisSettings(otlp_endpoint="http://127.0.0.1:4318"), "x")


def test_opentelemetry_is_imported_where_traces_are_on_and_nowhere_else() -> None:
    """Only `store.traces` imports it, and only `traces_of` imports that, once an address is configured."""
    for package in ("smoothcert", "models", "store", "workers", "app"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            tree = ast.parse(path.read_text())
            outside = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
            modules = {getattr(node, "module", None) or node.names[0].name for node in outside}
            assert name == "store/traces.py" or not [each for each in modules if each.startswith("opentelemetry")], name
            assert "store.traces" not in modules, name
