"""The Dockerfile, the compose files and the manifests have what they need; tests/compose/smoke.sh runs them."""

from __future__ import annotations

import re
import stat
import subprocess
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from app.__main__ import GRACE_SECONDS
from app.http.authentication import Keys, digest
from app.settings import ApiSettings
from smoothcert import __version__
from smoothcert.attestation.keyring import Keyring
from store import bookkeeping
from workers.settings import WorkerSettings
from workers.worker import FAREWELL_S

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
GPU = yaml.safe_load((ROOT / "docker-compose.gpu.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
KUBERNETES = ROOT / "deploy" / "kubernetes"
MANIFESTS = {
    f"{path.stem} {each['kind']}": each
    for path in sorted(KUBERNETES.glob("*.yaml"))
    for each in yaml.safe_load_all(path.read_text())
}
KEDA = {name: each for name, each in MANIFESTS.items() if each["apiVersion"].startswith("keda.sh/")}
CORE = {name: each for name, each in MANIFESTS.items() if name not in KEDA and name != "kustomization Kustomization"}
PODS = {name.split()[0]: each["spec"]["template"]["spec"] for name, each in CORE.items() if "template" in str(each)}
CONTAINERS = {name: pod["containers"][0] for name, pod in PODS.items()}


def stages() -> dict[str, list[tuple[str, str]]]:
    """The stages of the Dockerfile: the instructions of each, in order."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE)).splitlines()
    found: dict[str, list[tuple[str, str]]] = {}
    for line in filter(None, lines):
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            stage = rest.split()[-1]
            found[stage] = []
        found[stage].append((instruction, rest.strip()))
    return found


def lineage(stage: str) -> list[tuple[str, str]]:
    """The instructions of a stage after those of the stages that it starts from."""
    base = stages()[stage][0][1].split()[0]
    return (lineage(base) if base in stages() else []) + stages()[stage]


# --- images


@pytest.mark.parametrize("target", ["api", "worker"])
def test_an_image_runs_without_a_shell_as_somebody_else_than_root_and_tells_its_health(target: str) -> None:
    last = dict(lineage(target))  # the last of equal instructions counts
    uid = last["USER"].split(":")[0]
    assert uid.isdigit()
    assert int(uid) > 0
    assert last["CMD"].startswith('["python", "-m"')
    assert ' CMD ["python", ' in last["HEALTHCHECK"]


def test_the_image_of_the_api_takes_nothing_from_the_workers() -> None:
    copied = " ".join(rest for instruction, rest in lineage("api") if instruction == "COPY")
    assert "worker" not in copied
    assert "--requirement api.txt" in str(stages()["api-packages"])


def test_packages_are_installed_before_the_sources_are_looked_at_and_as_the_constraints_say() -> None:
    for target in ("api", "worker"):
        steps = lineage(f"{target}-packages")
        assert [rest for instruction, rest in steps if instruction == "COPY"] == ["deploy/lock constraints.txt ./"]
        assert any("PIP_CONSTRAINT=constraints.txt" in rest for _, rest in steps)


def test_only_what_one_chooses_is_installed_without_its_hashes() -> None:
    for target, *chosen in (
        ("api",),
        ("worker", "torch torchvision", "--requirement extra-$extra.txt || exit 1; done"),
    ):
        runs = [rest for instruction, rest in stages()[f"{target}-packages"] if instruction == "RUN"]
        installs = [rest.partition("pip install ")[2] for rest in runs]
        assert installs == [f"--require-hashes --requirement {target}.txt", *chosen]
    assert ("ARG", "EXTRAS=") in stages()["worker-packages"]  # there are none unless one is chosen


def test_the_extras_of_an_image_are_those_of_the_package_at_their_pinned_versions() -> None:
    """This covers every library of members that are not of torch, so that a missing one can be installed as told."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    files = {path.stem.removeprefix("extra-"): path for path in (ROOT / "deploy" / "lock").glob("extra-*.txt")}
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert set(files) == {"hub", "onnx", "openvino"}
    for name, path in files.items():
        assert path.read_text().split() == sorted(extras[name])
        assert {each.lower() for each in extras[name]} <= pinned


@pytest.mark.parametrize("target", ["api", "worker"])
def test_an_image_says_what_it_is(target: str) -> None:
    text = " ".join(rest for instruction, rest in lineage(target) if instruction == "LABEL")
    labels = dict(re.findall(r'org\.opencontainers\.image\.([a-z.]+)="([^"]*)"', text))
    assert labels["title"] == f"smoothcert-{target}"
    assert set(labels) >= {"description", "licenses", "version", "revision", "created", "base.name"}
    assert labels["base.name"].endswith(stages()["base"][0][1].split()[0])
    arguments = dict(rest.split("=") for instruction, rest in stages()["service"] if instruction == "ARG")
    assert labels["version"] == "$VERSION"
    assert arguments["VERSION"] == __version__


def test_building_needs_no_other_image_than_that_of_python() -> None:
    assert "syntax=" not in DOCKERFILE
    pulled = {steps[0][1].split()[0] for steps in stages().values()} - set(stages())
    assert len(pulled) == 1
    assert pulled.pop().startswith("python:3.11-")


def test_the_context_of_the_build_is_what_is_named_and_nothing_else() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    copied = {
        rest.split()[0]
        for steps in stages().values()
        for instruction, rest in steps
        if instruction == "COPY" and "--from" not in rest
    }
    assert {line[1:] for line in lines if line.startswith("!")} == copied | {"constraints.txt"}


# --- compose


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_confined_limited_and_started_again(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == "unless-stopped"
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
    assert "container_name" not in service


def test_redis_can_be_reached_from_inside_alone_and_only_the_api_from_outside() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["api"]
    assert SERVICES["api"]["ports"] == ["${SMOOTHCERT_PUBLISH:-127.0.0.1:8000}:8000"]
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert SERVICES["redis"]["networks"] == SERVICES["worker"]["networks"] == ["inside"]


def test_redis_writes_before_it_answers_evicts_nothing_and_has_a_password_everywhere() -> None:
    configurations = [SERVICES["redis"]["command"][-1], MANIFESTS["redis ConfigMap"]["data"]["redis.conf"]]
    configurations[1] += CONTAINERS["redis"]["args"][0]
    for configuration in configurations:
        for line in ("appendonly yes", "appendfsync always", "maxmemory-policy noeviction", "requirepass $"):
            assert line in configuration
    assert SERVICES["redis"]["volumes"] == ["redis:/data"]
    assert SERVICES["redis"]["healthcheck"]["test"]


def test_secrets_come_from_files_that_git_and_the_images_never_see() -> None:
    folders = {Path(secret["file"]).parent.as_posix() for secret in COMPOSE["secrets"].values()}
    assert folders == {"deploy/secrets"}
    assert "secrets/" in (ROOT / "deploy" / ".gitignore").read_text().splitlines()
    assert not [name for name in SERVICES if "PASSWORD=" in str(SERVICES[name].get("environment", ""))]


def test_a_gpu_belongs_to_one_worker() -> None:
    workers = GPU["services"]
    assert workers["worker-two"]["extends"] == {"file": "docker-compose.yml", "service": "worker"}
    devices = [
        device["device_ids"]
        for worker in workers.values()
        for device in worker["deploy"]["resources"]["reservations"]["devices"]
    ]
    assert devices == [["0"], ["1"]]
    assert {worker["environment"]["SMOOTHCERT_DEVICES"] for worker in workers.values()} == {"cuda:0"}


# --- what compose and Kubernetes share


def environments() -> Iterator[tuple[str, dict[str, str]]]:
    for name, service in [*SERVICES.items(), *GPU["services"].items()]:
        yield name.partition("-")[0], service.get("environment", {})
    for name, container in CONTAINERS.items():
        yield name, {each["name"]: each["value"] for each in container.get("env", [])}


def test_every_variable_that_is_set_is_a_setting_of_that_process() -> None:
    known = {"api": ApiSettings.model_fields, "worker": WorkerSettings.model_fields, "redis": {}}
    for process, variables in environments():
        assert {name.removeprefix("SMOOTHCERT_").lower() for name in variables} <= set(known[process]), process


def test_a_redis_that_forgets_is_refused_at_the_start() -> None:
    redis = [variables for _, variables in environments() if "SMOOTHCERT_REDIS_URL" in variables]
    assert [variables.get("SMOOTHCERT_STRICT") for variables in redis] == ["true"] * 4  # compose and Kubernetes


def test_a_process_is_given_the_time_that_it_takes_to_leave() -> None:
    name = "SMOOTHCERT_DRAIN_S"
    drain = {process: variables[name] for process, variables in environments() if name in variables}
    worker = float(drain["worker"]) + 2 * FAREWELL_S
    for process, least in (("worker", worker), ("api", GRACE_SECONDS)):
        assert float(SERVICES[process]["stop_grace_period"].removesuffix("s")) > least
        before = PODS[process]["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {})
        assert PODS[process]["terminationGracePeriodSeconds"] - before.get("seconds", 0) > least


def test_secrets_are_made_once_and_fit_together(tmp_path: Path) -> None:
    script = tmp_path / "secrets.sh"
    script.write_text((ROOT / "deploy" / "secrets.sh").read_text())
    made = []
    for _ in range(2):
        subprocess.run(["sh", script], check=True)
        made.append({path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()})
    assert made[0] == made[1]
    assert set(made[0]) == {"redis_password", "api_key", "api_keys", "seed_secret", "keyring"}
    for secret in ("redis_password", "seed_secret"):
        assert re.fullmatch("[0-9a-f]{64}", made[0][secret])
    assert made[0]["seed_secret"] != made[0]["redis_password"]
    assert Keys.read(str(tmp_path / "secrets" / "api_keys")).digests == (("compose", digest(made[0]["api_key"])),)
    keyring = Keyring.read(tmp_path / "secrets" / "keyring")
    assert keyring.private not in (made[0]["seed_secret"], made[0]["redis_password"])
    assert [key.name for key in keyring.published.keys] == ["smoothcert"]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "secrets").iterdir()}
    assert modes == {
        "redis_password": 0o444,
        "api_key": 0o600,
        "api_keys": 0o444,
        "seed_secret": 0o444,
        "keyring": 0o444,
    }
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700


# --- Kubernetes

VERSIONS = ("1.31", kubernetes_validate.latest_version())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CORE)
def test_a_manifest_follows_the_schema_of_kubernetes(name: str, version: str) -> None:
    kubernetes_validate.validate(CORE[name], version, strict=True)


@pytest.mark.parametrize(
    ("path", "value"),
    [(("replicas",), "two"), (("template", "spec", "containers", 0, "livenesProbe"), {}), (("template",), "api")],
)
def test_a_manifest_with_a_mistake_is_found(path: tuple[Any, ...], value: Any) -> None:
    wrong = deepcopy(MANIFESTS["api Deployment"])
    place = wrong["spec"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("name", PODS)
def test_a_pod_is_confined_as_the_restricted_profile_asks(name: str) -> None:
    pod, container = PODS[name], CONTAINERS[name]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in container["resources"]["limits"]
    assert {"startupProbe", "readinessProbe"} <= set(container)


def test_pods_run_as_the_user_of_their_image() -> None:
    for name in ("api", "worker"):
        uid, gid = dict(lineage(name))["USER"].split(":")
        context = PODS[name]["securityContext"]
        assert (context["runAsUser"], context["runAsGroup"]) == (int(uid), int(gid))


def test_every_manifest_is_applied_but_the_example_of_a_secret() -> None:
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml", "secret.example.yaml"}
    assert set(MANIFESTS["kustomization Kustomization"]["resources"]) == files


def merged(manifest: Any, patch: Any) -> Any:
    """A manifest with a patch merged into it as Kubernetes does it: lists of named items are joined by their names."""
    if isinstance(manifest, dict) and isinstance(patch, dict):
        return {**manifest, **{key: merged(manifest.get(key), value) for key, value in patch.items()}}
    if isinstance(manifest, list) and isinstance(patch, list):
        known = {each["name"]: each for each in manifest}
        return [*{**known, **{each["name"]: merged(known.get(each["name"]), each) for each in patch}}.values()]
    return patch


@pytest.mark.parametrize("version", VERSIONS)
def test_a_component_gives_the_archive_a_volume_that_all_api_pods_write(version: str) -> None:
    folder = KUBERNETES / "archive"
    component, claim, patch = (
        yaml.safe_load((folder / name).read_text()) for name in ("kustomization.yaml", "claim.yaml", "api.yaml")
    )
    assert {*component["resources"], *(each["path"] for each in component["patches"])} | {"kustomization.yaml"} == {
        path.name for path in folder.iterdir()
    }
    api = MANIFESTS["api Deployment"]
    assert (patch["kind"], patch["metadata"]) == (api["kind"], {"name": api["metadata"]["name"]})
    with_archive = merged(api, patch)
    for manifest in (claim, with_archive):
        kubernetes_validate.validate(manifest, version, strict=True)
    pod, container = (each["template"]["spec"] for each in (with_archive["spec"], patch["spec"]))
    assert len(pod["containers"]) == 1
    assert len(pod["containers"][0]["env"]) == len(CONTAINERS["api"]["env"]) + 1
    (variable,), (mount,) = container["containers"][0]["env"], container["containers"][0]["volumeMounts"]
    assert (variable["name"], variable["value"]) == ("SMOOTHCERT_ARCHIVE", mount["mountPath"])
    (volume,) = container["volumes"]
    assert volume["name"] == mount["name"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert "archive" in SERVICES["api"]["volumes"][0]  # compose does the same
    assert f"# components: [{folder.name}]" in (KUBERNETES / "kustomization.yaml").read_text()


def test_secrets_that_are_mounted_are_in_the_example() -> None:
    keys = set(MANIFESTS["secret.example Secret"]["stringData"])
    assert keys == set(COMPOSE["secrets"])
    for _, variables in environments():
        named = {value for value in variables.values() if value.startswith("/run/secrets/")}
        assert {Path(value).name for value in named} <= keys


# The fields that KEDA documents for these kinds, as far as they are used here, with the type of each.
SCALED_OBJECT = {
    "scaleTargetRef": {"name": str},
    "pollingInterval": int,
    "minReplicaCount": int,
    "maxReplicaCount": int,
    "advanced": {"horizontalPodAutoscalerConfig": {"behavior": dict}},
    "triggers": [
        {
            "type": str,
            "metadata": {"address": str, "listName": str, "listLength": str, "databaseIndex": str},
            "authenticationRef": {"name": str},
        }
    ],
}
TRIGGER_AUTHENTICATION = {"secretTargetRef": [{"parameter": str, "name": str, "key": str}]}


def misfits(value: Any, shape: Any, place: str = "spec") -> list[str]:
    """The places where a value does not have a shape: unknown or missing fields, and other types."""
    if isinstance(shape, dict) and isinstance(value, dict):
        wrong = [f"{place}.{name}" for name in value.keys() ^ shape.keys()]
        return wrong + [
            each
            for name in value.keys() & shape.keys()
            for each in misfits(value[name], shape[name], f"{place}.{name}")
        ]
    if isinstance(shape, list) and isinstance(value, list):
        return [each for i, item in enumerate(value) for each in misfits(item, shape[0], f"{place}[{i}]")]
    return [] if isinstance(shape, type) and type(value) is shape else [place]


def test_the_scaler_has_the_fields_that_keda_documents() -> None:
    assert misfits(KEDA["scaler ScaledObject"]["spec"], SCALED_OBJECT) == []
    assert misfits(KEDA["scaler TriggerAuthentication"]["spec"], TRIGGER_AUTHENTICATION) == []
    behavior = KEDA["scaler ScaledObject"]["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "worker"},
        "spec": {"maxReplicas": 8, "scaleTargetRef": {"kind": "Deployment", "name": "worker"}, "behavior": behavior},
    }
    kubernetes_validate.validate(autoscaler, VERSIONS[-1], strict=True)


def test_a_scaler_with_a_mistake_is_found() -> None:
    wrong = deepcopy(KEDA["scaler ScaledObject"]["spec"])
    wrong["triggers"][0]["metadata"]["listLength"] = 4
    wrong["minReplicas"] = wrong.pop("minReplicaCount")
    assert sorted(misfits(wrong, SCALED_OBJECT)) == [
        "spec.minReplicaCount",
        "spec.minReplicas",
        "spec.triggers[0].metadata.listLength",
    ]


def test_the_scaler_counts_the_queue_of_the_workers_that_it_scales() -> None:
    spec = KEDA["scaler ScaledObject"]["spec"]
    pool = WorkerSettings.model_fields["pool"].default
    queues = (bookkeeping.queue_name(pool), bookkeeping.quarantine_name(pool))
    counted = [each["metadata"]["listName"] for each in spec["triggers"]]
    assert counted == [*map(bookkeeping.waiting_key, queues)]
    assert "SMOOTHCERT_POOL" not in str(CONTAINERS["worker"]["env"])
    assert spec["scaleTargetRef"]["name"] == MANIFESTS["worker Deployment"]["metadata"]["name"]
    assert "replicas" not in MANIFESTS["worker Deployment"]["spec"]
    for trigger in spec["triggers"]:
        service, namespace, _ = trigger["metadata"]["address"].split(".", 2)
        assert (service, namespace) == ("redis", MANIFESTS["kustomization Kustomization"]["namespace"])
    (reference,) = KEDA["scaler TriggerAuthentication"]["spec"]["secretTargetRef"]
    assert reference["key"] in MANIFESTS["secret.example Secret"]["stringData"]
    assert spec["minReplicaCount"] >= 1
