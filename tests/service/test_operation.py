"""Everything around the certifications: health, metrics, documents, headers, logs, start and end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.docs import examples, openapi
from app.local.embedded import EmbeddedServer
from app.main import create_app
from app.settings import ApiSettings
from smoothcert.problem import KINDS
from smoothcert.published import EnsembleList, ServedEnsemble
from smoothcert.request import CertificationRequest, PlanRequest, PostedRequest
from smoothcert.verification import verify
from store import keys
from tests.service import PATIENCE_S, database, eventually
from tests.support.api import ROOT, Api, problem, question
from tests.support.player import CLASSES, SHAPE, Player

URL = "/v1/certifications"


# --- routes and errors that belong to none


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1", "/v1/", "/v1/certifications/", "/page/nothing.js", "/page/../main.py"]
)
def test_an_unknown_route_is_a_problem(client: httpx2.Client, path: str) -> None:
    for method in ("GET", "POST"):
        answer = client.request(method, path)
        assert answer.status_code in (404, 405)
        problem(answer, "not_found" if answer.status_code == 404 else "method_not_allowed")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", URL, "GET, POST"),
        ("PATCH", f"{URL}/x", "GET, DELETE"),
        ("GET", f"{URL}/x/cancel", "POST"),
        ("POST", f"{URL}/x/events", "GET"),
        ("GET", "/v1/plan", "POST"),
        ("DELETE", "/v1/ensembles", "GET"),
        ("POST", "/healthz", "GET, HEAD"),
        ("PROPFIND", "/healthz", "GET, HEAD"),
    ],
)
def test_another_method_is_told_all_that_are_allowed(
    client: httpx2.Client, method: str, path: str, allowed: str
) -> None:
    answer = client.request(method, path)
    assert allowed in problem(answer, "method_not_allowed").detail
    assert answer.headers["allow"] == allowed


def test_what_nobody_expected_is_logged_and_not_told(api: Api, player: Player) -> None:
    certification = api.client.post(URL, json=question(player.ensemble)).json()["id"]
    player.redis.hset(keys.record(certification), "images", "many")
    answer = api.client.get(f"{URL}/{certification}")
    player.redis.delete(keys.record(certification))
    detail = problem(answer, "internal").detail
    assert "many" not in detail
    here = answer.headers["x-request-id"]
    (line,) = eventually(lambda: [line for line in logged(api) if line["request_id"] == here and "traceback" in line])
    assert "ValueError" in line["traceback"]


# --- request ids, headers, logs


def logged(api: Api) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in api.log.read_text().splitlines()]
    return [line for line in lines if "request_id" in line]


@pytest.mark.parametrize("sent", ["abc", "A.b_c-9", "x" * 64])
def test_a_request_id_is_kept(client: httpx2.Client, sent: str) -> None:
    for path in ("/healthz", "/nothing"):
        assert client.get(path, headers={"X-Request-ID": sent}).headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", ["", "x" * 65, "a b", "a\tb", "{}", "caf\u00e9"])
def test_a_harmful_request_id_is_replaced(client: httpx2.Client, sent: str) -> None:
    answer = client.get("/healthz", headers={b"X-Request-ID": sent.encode()})
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])


def test_every_answer_has_the_security_headers(client: httpx2.Client) -> None:
    for path in ("/", "/docs", "/healthz", "/nothing", URL, "/page/docs.js"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert "server" not in headers


def test_a_line_of_the_log_says_what_happened(api: Api, player: Player) -> None:
    answer = api.client.post(URL, json=question(player.ensemble), headers={"X-Request-ID": player.name})
    line = eventually(lambda: [line for line in logged(api) if line["request_id"] == player.name])[0]
    assert line["certification_id"] == answer.json()["id"]
    assert (line["method"], line["path"], line["status"], line["owner"]) == ("POST", URL, 202, "anonymous")
    assert line["seconds"] > 0
    assert line["level"] == "info"


def test_a_path_cannot_forge_a_line(api: Api) -> None:
    api.client.get("/x%0d%0a%7B%22level%22:%22forged%22%7D", headers={"X-Request-ID": "forger"})
    (line,) = eventually(lambda: [line for line in logged(api) if line["request_id"] == "forger"])
    assert line["path"] == '/x\r\n{"level":"forged"}'
    assert all(line.get("level") != "forged" for line in logged(api))


# --- for operators


def test_health_and_version(client: httpx2.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    version = client.get("/v1/version").json()
    assert (version["api"], version["certificate"]) == ("1", "smoothcert/certificate/2")


def test_ready_means_a_live_worker(valkey: EmbeddedServer, tmp_path: Path) -> None:
    url = database(valkey.url, 2)
    with Api(url, tmp_path) as api:
        assert "worker" in problem(api.client.get("/readyz"), "not_ready").detail
        worker = Player(url)
        worker.announce()
        answer = api.client.get("/readyz")
        readiness = answer.json()
        assert {check["status"] for check in readiness.pop("redis")} == {"ok"}
        assert (answer.status_code, readiness) == (200, {"status": "ready", "workers": 1, "archive": None})
        worker.leave()
        problem(api.client.get("/readyz"), "not_ready")


def samples(client: httpx2.Client) -> dict[str, float]:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {
        each.name + "".join(f",{name}={value}" for name, value in sorted(each.labels.items())): each.value
        for family in families
        for each in family.samples
    }


def test_metrics_tell_what_happened(client: httpx2.Client, player: Player) -> None:
    before = samples(client)
    client.post(URL, json=question(player.ensemble))
    player.play()
    client.post(URL, json=question(player.ensemble))
    client.post(URL, json=question(player.ensemble, alpha=0))
    after = samples(client)

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0.0)

    assert grown("smoothcert_certifications_total,outcome=succeeded") == 1
    assert grown("smoothcert_samples_total") == 10
    assert grown("smoothcert_certification_duration_seconds_count") == 1
    assert grown("smoothcert_certification_duration_seconds_sum") == pytest.approx(0.2)
    assert grown("smoothcert_certification_duration_seconds_bucket,le=0.1") == 0
    assert grown("smoothcert_certification_duration_seconds_bucket,le=0.3") == 1
    assert grown("smoothcert_certification_wait_seconds_bucket,le=0.03") == 1
    assert grown(f"smoothcert_http_requests_total,method=POST,route={URL},status=202") == 2
    assert grown(f"smoothcert_http_requests_total,method=POST,route={URL},status=422") == 1
    assert after["smoothcert_redis_up"] == 1
    assert after[f"smoothcert_queue_depth,pool={player.pool}"] == 1
    host, _, worker = player.name.rpartition("-")
    assert after[f"smoothcert_worker_batch_fill,worker={worker}"] == 0.75
    assert 0 <= after[f"smoothcert_worker_heartbeat_age_seconds,worker={worker}"] < PATIENCE_S
    assert not [name for name in after if host in name]  # not every key may see hosts


def test_paths_of_ones_own_make_no_series(client: httpx2.Client) -> None:
    for path in ("/invented", f"{URL}/cert_invented"):
        client.get(path)
    metrics = client.get("/metrics").text
    assert "invented" not in metrics
    assert f'route="{URL}/{{id}}"' in metrics


def test_ensembles_are_told_as_they_were_announced(client: httpx2.Client, player: Player) -> None:
    player.announce(rate=5000.0)
    time.sleep(1.1)
    answer = client.get(f"/v1/ensembles/{player.ensemble}")
    served = ServedEnsemble.model_validate_json(answer.content)
    assert (served.classes, served.input_shape, served.digest) == (CLASSES, SHAPE, player.card.digest)
    assert (served.ready, served.workers, served.devices, served.evaluations_per_second) == (True, 1, ("cpu",), 5000.0)
    assert served in EnsembleList.model_validate_json(client.get("/v1/ensembles").content).data
    problem(client.get("/v1/ensembles/nobody"), "unknown_ensemble")


def test_long_answers_are_compressed_for_clients_that_accept_it(client: httpx2.Client) -> None:
    sizes = {}
    for accepted in ("gzip", "identity"):
        with client.stream("GET", "/openapi.json", headers={"Accept-Encoding": accepted}) as answer:
            sizes[accepted] = sum(map(len, answer.iter_raw()))
            assert answer.headers.get("content-encoding") == ("gzip" if accepted == "gzip" else None)
    assert sizes["gzip"] < sizes["identity"] / 3
    assert "content-encoding" not in client.get("/healthz").headers, "it is short"


# --- documents


def test_the_page_and_the_documentation_load_nothing_from_elsewhere(client: httpx2.Client) -> None:
    for path in ("/", "/docs"):
        answer = client.get(path)
        assert answer.headers["content-type"].startswith("text/html")
        assert "http://" not in answer.text
        assert "https://" not in answer.text
        for part in re.findall(r'(?:src|href)="(/[^"]*)"', answer.text):
            assert client.get(part).status_code in (200, 503), part
    assert client.get("/page/docs.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/page/style.css").headers["content-type"].startswith("text/css")


def test_the_document_describes_every_operation(client: httpx2.Client) -> None:
    document = client.get("/openapi.json").json()
    described = {each["operationId"] for path in document["paths"].values() for each in path.values()}
    assert described == set(openapi.OPERATIONS)
    for path in document["paths"].values():
        for each in path.values():
            assert each["summary"]
            for status, answer in each["responses"].items():
                assert ("application/problem+json" in answer.get("content", {})) == (int(status) >= 400)
    post = document["paths"][URL]["post"]
    assert set(post["requestBody"]["content"]) == {"application/json", "multipart/form-data", "application/x-npy"}
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_the_document_is_written_once() -> None:
    app = create_app(ApiSettings())
    assert openapi.text(app) is openapi.text(app)
    assert json.loads(openapi.text(app)) == openapi.document(app)


def test_every_code_is_documented_somewhere() -> None:
    documented = {code for operation in openapi.OPERATIONS.values() for code in operation.problems} | set(
        openapi.ALWAYS
    )
    assert set(KINDS) - documented == {"not_found", "method_not_allowed"}  # these belong to no operation


def test_the_examples_are_what_they_are_examples_of() -> None:
    assert verify(examples.certificate())
    assert examples.certificate().decision == "certified"
    PostedRequest.model_validate(examples.POSTED)
    PlanRequest.model_validate(examples.PLANNED)
    CertificationRequest.model_validate(examples.QUESTION)


# --- how it starts and ends


def test_what_is_slow_to_import_is_never_imported() -> None:
    script = "import sys, app.main, app.__main__; assert not {'torch', 'torchvision', 'scipy.stats'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def test_an_idle_service_is_small(valkey: EmbeddedServer, tmp_path: Path) -> None:
    with Api(valkey.url, tmp_path) as idle:
        assert idle.resident_bytes() < 150e6


def test_whoever_waits_is_let_go_when_the_service_ends(valkey: EmbeddedServer, tmp_path: Path, player: Player) -> None:
    with Api(valkey.url, tmp_path) as api:
        answers: list[httpx2.Response] = []
        url = f"http://127.0.0.1:{api.port}{URL}"
        body = question(player.ensemble)
        wait = {"Prefer": "wait=60"}
        client = threading.Thread(target=lambda: answers.append(httpx2.post(url, json=body, headers=wait, timeout=60)))
        client.start()
        eventually(player.waiting)
        assert api.process is not None
        api.process.terminate()
        client.join(40)  # it would wait for a minute
        assert answers[0].status_code == 202
        api.process.wait(40)


def test_ctrl_c_ends_the_service_without_a_traceback(valkey: EmbeddedServer, tmp_path: Path) -> None:
    with Api(valkey.url, tmp_path) as api:
        assert api.process is not None
        api.process.send_signal(signal.SIGINT)
        assert api.process.wait(PATIENCE_S) == 130
        assert "Traceback" not in api.log.read_text()


def test_pages_of_other_origins_are_let_in_where_they_are_named(
    valkey: EmbeddedServer, tmp_path: Path, api: Api
) -> None:
    headers = {"Origin": "https://good.example", "Access-Control-Request-Method": "POST"}
    with Api(valkey.url, tmp_path, cors_origins="https://good.example") as other:
        answer = other.client.options(URL, headers=headers)
        assert answer.headers["access-control-allow-origin"] == "https://good.example"
        bad = other.client.get("/healthz", headers={"Origin": "https://bad.example"})
        assert "access-control-allow-origin" not in bad.headers
    assert "access-control-allow-origin" not in api.client.get("/healthz", headers=headers).headers
