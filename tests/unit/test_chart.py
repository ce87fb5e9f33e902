"""The Helm chart renders the plain manifests, and follows its values."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml

from smoothcert import __version__
from tests.support.helm import INSTALLED, by_helm, by_rules
from tests.unit.test_deployment import KUBERNETES, MANIFESTS, ROOT, VERSIONS

CHART = ROOT / "deploy" / "helm" / "smoothcert"
KUSTOMIZATION: dict[str, Any] = MANIFESTS["kustomization Kustomization"]
NAMESPACE: str = KUSTOMIZATION["namespace"]
OTHER: dict[str, Any] = {
    "secret": "other",
    "api": {
        "image": "r/api:1",
        "replicas": 3,
        "archive": "kept",
        "env": [{"name": "SMOOTHCERT_QUEUE_LENGTH", "value": "2000"}],
    },
    "worker": {
        "replicas": 5,
        "slots": 4,
        "threads": 1,
        "env": [{"name": "SMOOTHCERT_DEVICES", "value": "cuda:0"}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    },
    "redis": {"enabled": False, "url": "redis://elsewhere:6379/0"},
    "scaler": {"enabled": False},
    "networkPolicy": False,
}
SOME: dict[str, Any] = {"redis": {"storage": "9Gi", "maxmemory": "1gb"}, "scaler": {"most": 20, "waiting": 2}}
VALUES = {"defaults": {}, "other": OTHER, "some": SOME}


def named(manifests: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    found = {(each["kind"], each["metadata"]["name"]): each for each in manifests}
    assert len(found) == len(manifests)
    return found


def made(values: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return named(by_rules(CHART, values, NAMESPACE))


def plain() -> dict[tuple[str, str], dict[str, Any]]:
    """The plain manifests with the images that the kustomization names, without the namespace and the secret."""
    files = [KUBERNETES / name for name in KUSTOMIZATION["resources"] if name != "namespace.yaml"]
    found = named([each for file in files for each in yaml.safe_load_all(file.read_text())])
    tags = {each["name"]: f"{each['newName']}:{each['newTag']}" for each in KUSTOMIZATION["images"]}
    for name in ("api", "worker"):
        (container,) = found["Deployment", name]["spec"]["template"]["spec"]["containers"]
        container["image"] = tags[container["image"]]
    return found


def test_a_claim_for_the_archive_is_mounted() -> None:
    pod = made({"api": {"archive": "kept"}})["Deployment", "api"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {"name": "SMOOTHCERT_ARCHIVE", "value": "/archive"} in container["env"]
    assert {"name": "archive", "mountPath": "/archive"} in container["volumeMounts"]
    assert {"name": "archive", "persistentVolumeClaim": {"claimName": "kept"}} in pod["volumes"]


def test_the_defaults_make_the_plain_manifests() -> None:
    assert made({}) == plain()


@pytest.mark.skipif(not INSTALLED, reason="neither `helm` nor the package helm-python-sdk is installed")
@pytest.mark.parametrize("values", VALUES)
def test_helm_makes_the_same_of_the_chart_as_the_rules_of_these_tests(values: str) -> None:
    assert named(by_helm(CHART, VALUES[values], NAMESPACE)) == made(VALUES[values])


@pytest.mark.parametrize("values", VALUES)
def test_what_it_makes_follows_the_schema_of_kubernetes(values: str) -> None:
    for (kind, _), each in made(VALUES[values]).items():
        if kind not in ("ScaledObject", "TriggerAuthentication"):
            kubernetes_validate.validate(each, VERSIONS[-1], strict=True)


def test_values_do_what_they_say() -> None:
    found = made(OTHER)
    assert set(found) == {
        ("Service", "api"),
        ("PodDisruptionBudget", "api"),
        ("Deployment", "api"),
        ("PodDisruptionBudget", "worker"),
        ("Deployment", "worker"),
    }
    for name, replicas in (("api", 3), ("worker", 5)):
        spec = found["Deployment", name]["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        environment = {each["name"]: each["value"] for each in container["env"]}
        assert spec["replicas"] == replicas
        assert environment["SMOOTHCERT_REDIS_URL"] == OTHER["redis"]["url"]
        assert environment.items() >= {each["name"]: each["value"] for each in OTHER[name]["env"]}.items()
        volumes = {each["name"]: each for each in spec["template"]["spec"]["volumes"]}
        assert volumes["secrets"]["secret"]["secretName"] == "other"
    (worker,) = found["Deployment", "worker"]["spec"]["template"]["spec"]["containers"]
    assert {each["name"]: each["value"] for each in worker["env"]}["SMOOTHCERT_SLOTS"] == "4"
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == 1
    some = made(SOME)
    assert "maxmemory 1gb\n" in some["ConfigMap", "redis"]["data"]["redis.conf"]
    (claim,) = some["StatefulSet", "redis"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "9Gi"
    spec = some["ScaledObject", "worker"]["spec"]
    assert (spec["maxReplicaCount"], spec["triggers"][0]["metadata"]["listLength"]) == (20, "2")
    assert "replicas" not in some["Deployment", "worker"]["spec"]


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_every_value_is_used() -> None:
    templates = "".join(path.read_text() for path in (CHART / "templates").glob("*.yaml"))
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name, value in values.items():
        paths = [f"{name}.{each}" for each in value] if isinstance(value, dict) else [name]
        for path in paths:
            assert f".Values.{path} " in templates, path
