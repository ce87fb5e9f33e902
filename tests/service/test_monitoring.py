"""Alerts and dashboard use only metrics that a running service has, with the labels that it gives them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from app.local.embedded import EmbeddedServer
from tests.service import eventually
from tests.support.api import ROOT, Api, npy, problem
from tests.support.pool import Pool, flat
from tests.support.receiver import receiving
from tests.support.worker_networks import BREAK
from tests.support.zoo import SIGMA, make_zoo

URL = "/v1/certifications"

DEPLOY = ROOT / "deploy"
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
QUERIES = {
    **{rule["alert"]: [rule["expr"]] for rule in RULES},
    **{panel["title"]: [target["expr"] for target in panel["targets"]] for panel in DASHBOARD["panels"]},
}
SELECTOR = re.compile(r"\b((?:smoothcert_\w+|up))\b(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)=~?"([^"]*)"')
GROUPED = re.compile(r"\bby \(([^)]*)\)")
OF_PROMETHEUS = {"up": {"job": {"smoothcert"}}}
"""Labels that Prometheus itself adds; `job` is the name in deploy/prometheus/prometheus.yaml."""

Labels = dict[str, set[str]]


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Labels]]:
    """The metrics of a service in which everything has happened once: for each name, the values of its labels."""
    folder = tmp_path_factory.mktemp("service")
    secret = folder / "secret"
    secret.write_text("secret")
    with EmbeddedServer(folder / "server") as server, receiving([500, 204, 410]) as receiver:
        settings = {
            "webhook_hosts": receiver.origin,
            "webhook_networks": "127.0.0.0/8",
            "webhook_secret_file": secret,
            "webhook_retry_s": "0.01",
            "queue_length": 1,
            "archive": folder / "archive",
        }
        pool = Pool(server, make_zoo(folder / "zoo"), "watched", ensembles="moody")
        with Api(server.url, folder, **settings) as api:
            problem(api.client.get("/readyz"), "not_ready")
            (folder / "archive").rename(folder / "aside")
            (folder / "archive").write_text("an archive that is away")
            pool.start()
            hook = {"webhook": f"{receiver.origin}/"}
            for value, status in ((0.9, "succeeded"), (BREAK, "failed")):
                assert posted(api, value, **hook).json()["status"] == status
                eventually(lambda: "smoothcert_webhooks_waiting 0.0" in api.client.get("/metrics").text, "the delivery")
            eventually(lambda: 'outcome="retried"' in api.client.get("/metrics").text, "an attempt that failed")
            (folder / "archive").unlink()
            (folder / "aside").rename(folder / "archive")
            eventually(lambda: "smoothcert_archive_waiting 0.0" in api.client.get("/metrics").text, "the archive")
            endless = posted(api, 0.5, wait=0, procedure={"name": "fixed", "n": 2_000_000}, radius=None).json()["id"]
            problem(posted(api, 0.9), "too_many_certifications")
            api.client.post(f"{URL}/{endless}/cancel")
            found: dict[str, Labels] = defaultdict(lambda: defaultdict(set))
            for family in text_string_to_metric_families(api.client.get("/metrics").text):
                for sample in family.samples:
                    found[sample.name].update({})
                    for label, value in sample.labels.items():
                        found[sample.name][label].add(value)
            yield {**found, **OF_PROMETHEUS}
        pool.end()


def posted(api: Api, value: float, *, wait: int = 60, **fields: Any) -> httpx2.Response:
    """The response about a grey image."""
    question = {"ensemble": "moody", "sigma": SIGMA, "procedure": "sequential", "radius": 0.02, **fields}
    headers = {"Content-Type": "application/x-npy", "Prefer": f"wait={wait}"}
    return api.client.post(URL, content=npy(flat(value)), params={"request": json.dumps(question)}, headers=headers)


def unknown(query: str, metrics: dict[str, Labels]) -> list[str]:
    """Names in a query that the service does not have."""
    wrong = []
    for name, matchers in SELECTOR.findall(query):
        if name not in metrics:
            wrong.append(name)
            continue
        for label, value in MATCHER.findall(matchers):
            if not any(re.fullmatch(value, seen) for seen in metrics[name].get(label, ())):
                wrong.append(f"{name}{{{label}={value}}}")
    known = {label for name, _ in SELECTOR.findall(query) for label in metrics.get(name, ())}
    return wrong + [each for group in GROUPED.findall(query) for each in group.split(", ") if each not in known]


@pytest.mark.parametrize("title", QUERIES)
def test_a_query_is_about_metrics_that_a_service_has(title: str, metrics: dict[str, Labels]) -> None:
    for query in QUERIES[title]:
        assert SELECTOR.search(query)
        assert unknown(query, metrics) == [], query


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("smoothcert_queue_length", "smoothcert_queue_length"),
        ('smoothcert_webhooks_total{outcome="given_up"}', "smoothcert_webhooks_total{outcome=given_up}"),
        ("max by (queue) (smoothcert_queue_depth)", "queue"),
    ],
)
def test_a_query_with_a_mistake_is_found(query: str, wrong: str, metrics: dict[str, Labels]) -> None:
    assert unknown(query, metrics) == [wrong]


def test_every_metric_of_the_service_is_shown_or_watched(metrics: dict[str, Labels]) -> None:
    """Mutant killed: a metric that neither an alert nor the dashboard uses."""
    queried = {name for queries in QUERIES.values() for query in queries for name, _ in SELECTOR.findall(query)}
    shown = {name for name in metrics if not name.endswith("_created")}
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown}
    assert families == {re.sub(r"_(bucket|count|sum)$", "", name) for name in queried}


def test_panels_do_not_overlap_and_have_what_grafana_needs() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert {x for x, _ in cells} == set(range(24))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert {panel["type"] for panel in DASHBOARD["panels"]} == {"stat", "timeseries"}
    (source,) = DASHBOARD["templating"]["list"]
    assert {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]} == {f"${{{source['name']}}}"}


def test_every_alert_says_what_it_means_and_is_seen_to_fire() -> None:
    text = (DEPLOY / "prometheus" / "alerts.test.yaml").read_text()
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert text.count(rule["alert"]) >= 2, f"{rule['alert']} is to be shown silent and firing"


@pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool is not installed; Debian's package prometheus has it"
)
def test_promtool_takes_the_rules_and_sees_each_fire() -> None:
    folder = DEPLOY / "prometheus"
    for command in (("check", "rules", "alerts.yaml"), ("test", "rules", "alerts.test.yaml")):
        done = subprocess.run(("promtool", *command), cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_for_prometheus_reads_the_rules(tmp_path: Path) -> None:
    example = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    assert example["rule_files"] == ["alerts.yaml"]
    (job,) = example["scrape_configs"]
    assert {job["job_name"]} == OF_PROMETHEUS["up"]["job"]
