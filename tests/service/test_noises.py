"""Every noise goes through HTTP, Redis, a real worker, certificate, verify and replay; wrong uses are sentences."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import torch

from models.addition import Addition, add
from smoothcert import Client, InvalidRequestError, ProcedureMismatchError
from smoothcert.certificate import Certificate
from smoothcert.noise import Gaussian, GaussianLinf, Noise, Replacement, RoundedGaussian, Splitting, Uniform
from smoothcert.request import CertificationRequest
from smoothcert.seeds import commitment, service_seed
from smoothcert.verification import verify
from tests.support.api import problem, tensor
from tests.support.command import png, smoothcert
from tests.support.whole import whole_service
from tests.support.worker_networks import SHAPE, state
from workers.replay import replay

ALLOWED = "tests.support.worker_networks:trivial"
ENSEMBLES: dict[str, Noise] = {
    "gaussian": Gaussian(0.1),
    "uniform": Uniform(0.5),
    "replacement": Replacement(0.8, 256),
    "splitting": Splitting(0.5),
}
LIGHT = np.full(SHAPE, 230, np.uint8)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("noises")
    files = []
    for mark in (0.0, 1.0):
        files.append(folder / f"{int(mark)}.pt")
        torch.save(state(mark), files[-1])
    for name, noise in ENSEMBLES.items():
        addition = Addition(
            classes=("dark", "light"), input_shape=SHAPE, architecture=ALLOWED, noise=noise, method="by hand"
        )
        add(name, files, addition, zoo=folder / "zoo", allowed_imports=frozenset({ALLOWED}))
    return folder / "zoo"


@pytest.fixture(scope="module")
def client(zoo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with whole_service(tmp_path_factory.mktemp("service"), zoo) as api:
        yield api.client


def post(client: httpx2.Client, ensemble: str, image: Any = LIGHT, **fields: Any) -> httpx2.Response:
    request = {"ensemble": ensemble, "images": [tensor(image)], "procedure": "sequential", **fields}
    return client.post("/v1/certifications", json=request, headers={"Prefer": "wait=60"})


ASKED = [
    ("gaussian", Gaussian(0.1), 0.1),
    ("gaussian", RoundedGaussian(0.1), 0.1),
    ("gaussian", GaussianLinf(0.1, math.prod(SHAPE)), 0.005),
    ("uniform", Uniform(0.5), 0.25),
    ("replacement", Replacement(0.8, 256), 1),
]


@pytest.mark.parametrize(("ensemble", "noise", "radius"), ASKED, ids=lambda each: getattr(each, "label", str(each)))
def test_a_certificate_of_every_noise_verifies_and_replays(
    client: httpx2.Client, zoo: Path, ensemble: str, noise: Noise, radius: float
) -> None:
    answer = post(client, ensemble, noise=noise.parameters(), radius=radius)
    assert answer.status_code == 200, answer.text
    (text,) = answer.json()["certificates"]
    certificate = Certificate.from_json(json.dumps(text))
    assert (certificate.decision, certificate.class_name, certificate.noise) == ("certified", "light", noise)
    assert certificate.radius >= radius
    assert verify(certificate).problems == ()
    assert client.post("/v1/verify", json=text).json()["consistent"] is True
    again = replay(certificate, torch.from_numpy(LIGHT), zoo=zoo, allowed_imports=frozenset({ALLOWED}))
    assert again.differences == ()


def test_a_certificate_without_chance_has_no_alpha_verifies_and_replays(client: httpx2.Client, zoo: Path) -> None:
    answer = post(client, "splitting", procedure="exact")
    assert answer.status_code == 200, answer.text
    (text,) = answer.json()["certificates"]
    assert (text["decision"], text["class_name"], text["alpha"], text["samples"]) == ("certified", "light", None, 255)
    assert text["radius"] > 0.4
    certificate = Certificate.from_json(json.dumps(text))
    assert client.post("/v1/verify", json=text).json()["looks"][0]["p_interval"] == [1.0, 1.0]
    again = replay(certificate, torch.from_numpy(LIGHT), zoo=zoo, allowed_imports=frozenset({ALLOWED}))
    assert again.differences == ()
    plan = client.post("/v1/plan", json={"ensemble": "splitting", "procedure": "exact"}).json()
    assert (plan["feasible"], plan["most_samples"], plan["largest_radius"]) == (True, 255, 0.498040)


def test_the_sdk_and_the_command_choose_exact_where_the_noise_needs_it(client: httpx2.Client, tmp_path: Path) -> None:
    """They choose before they know the noise of the ensemble, and keep a procedure that the user names."""
    address, image = str(client.base_url), tmp_path / "light.png"
    image.write_bytes(png(230))
    with Client(address) as sdk:
        certificate = sdk.certify(image, ensemble="splitting")
        assert (certificate.procedure.name, certificate.alpha, certificate.samples) == ("exact", None, 255)
        kept = {"ensemble": "splitting", "out": tmp_path / "kept.jsonl"}
        (found,) = sdk.certify_many([image], **kept)
        assert (found.procedure.name, [*sdk.certify_many([image], **kept)]) == ("exact", [found])
        assert sdk.plan(ensemble="splitting").most_samples == 255
        mapping = {"name": "splitting", "reach": 0.5}
        assert sdk.certify(image, ensemble="splitting", noise=mapping).procedure.name == "exact"
        with pytest.raises(ProcedureMismatchError, match="ask for the procedure exact"):
            sdk.certify(image, ensemble="splitting", procedure="fixed")
        with pytest.raises(InvalidRequestError, match="must be left out, since the exact procedure proves the largest"):
            sdk.certify(image, ensemble="splitting", radius=0.2)
    printed = smoothcert("certify", image, "--ensemble", "splitting", url=address)
    assert printed.returncode == 0, printed.stderr
    assert "for certain" in " ".join(printed.stdout.split())


@pytest.mark.parametrize(
    ("ensemble", "words"),
    [
        ("replacement", "200 samples each certify 0 % at radius 1, "),  # they prove nothing beyond radius 0
        ("splitting", "All 255 outcomes of the noise certify 100 % at radius 0.19, "),
    ],
)
def test_the_command_diagnoses_an_ensemble_of_every_kind_of_noise(
    client: httpx2.Client, tmp_path: Path, ensemble: str, words: str
) -> None:
    images = np.stack([np.full(SHAPE, value, np.uint8).transpose(1, 2, 0) for value in (20, 230)])
    np.savez(tmp_path / "data.npz", images=images, labels=["dark", "light"])
    command = ("diagnose", tmp_path / "data.npz", "--ensemble", ensemble, "--json")
    done = smoothcert(*command, url=str(client.base_url))
    assert done.returncode == 0, done.stderr
    (found,) = (each for each in json.loads(done.stdout)["findings"] if each["name"] == "certifiable")
    assert found["sentence"].startswith(words)
    assert len(found["value"]) == 3
    assert found["advice"] is None


def test_a_request_without_a_noise_gets_that_of_the_ensemble(client: httpx2.Client) -> None:
    (certificate,) = post(client, "replacement", radius=1).json()["certificates"]
    assert certificate["noise"] == Replacement(0.8, 256).parameters()
    assert certificate["radius"] == 1


@pytest.mark.parametrize(
    ("image", "fields", "noise"),
    [
        (LIGHT, {}, RoundedGaussian(0.1)),
        (LIGHT, {"sigma": 0.1}, RoundedGaussian(0.1)),
        (LIGHT, {"noise": {"name": "gaussian", "sigma": 0.1}}, Gaussian(0.1)),
        (LIGHT.astype(np.float32) / np.float32(255), {}, Gaussian(0.1)),
        (LIGHT.astype(np.float32) / np.float32(255), {"sigma": 0.1}, Gaussian(0.1)),
    ],
)
def test_bytes_get_exact_noise_unless_a_noise_is_named(
    client: httpx2.Client, image: Any, fields: dict[str, Any], noise: Noise
) -> None:
    answer = post(client, "gaussian", image, radius=0.1, **fields).json()
    assert answer["request"]["noise"] == answer["certificates"][0]["noise"] == noise.parameters()
    assert answer["request"]["sigma"] is None


def test_a_seed_can_be_shown_not_to_have_been_chosen(zoo: Path, tmp_path: Path) -> None:
    """The response alone is enough, once the secret is revealed whose commitment the service has published."""
    (tmp_path / "secret").write_text("a secret of the service\n")
    with whole_service(tmp_path, zoo, api={"seed_secret_file": str(tmp_path / "secret")}) as api:
        version = api.client.get("/v1/version").json()
        answers = [post(api.client, "gaussian", radius=0.1, **fields).json() for fields in ({}, {"nonce": "mine"})]
    secret = b"a secret of the service"
    assert version["seed_commitment"] == commitment(secret)
    for answer in answers:
        request = CertificationRequest.model_validate(answer["request"])
        (provenance,) = (each["provenance"] for each in answer["certificates"])
        assert provenance["sampling"]["nonce"] == request.nonce
        assert provenance["sampling"]["seed"] == service_seed(secret, request, [provenance["input"]["sha256"]])
    assert answers[1]["request"]["nonce"] == "mine"
    assert answers[0]["request"]["nonce"] != "mine"


def test_every_noise_describes_itself(client: httpx2.Client) -> None:
    listed = {each["name"]: each for each in client.get("/v1/noises").json()["data"]}
    assert {"gaussian", "rounded-gaussian", "gaussian-linf", "uniform", "replacement"} <= set(listed)
    assert [name for name, each in listed.items() if each["whole"]] == ["replacement"]


def test_a_plan_refuses_a_radius_that_the_noise_cannot_have(client: httpx2.Client) -> None:
    answer = client.post("/v1/plan", json={"ensemble": "replacement", "radius": 1.5, "procedure": "sequential"})
    assert "whole number for replacement noise, got 1.5" in problem(answer, "invalid_request").detail


def test_an_ensemble_names_the_noises_that_suit_it(client: httpx2.Client) -> None:
    served = {each["name"]: each["noises"] for each in client.get("/v1/ensembles").json()["data"]}
    expected = {name: [noise.parameters() for ensemble, noise, _ in ASKED if ensemble == name] for name in ENSEMBLES}
    expected["splitting"] = [ENSEMBLES["splitting"].parameters()]
    assert served == expected
    for ensemble, noises in served.items():
        for noise in noises:
            asked_for = {"procedure": "exact"} if ensemble == "splitting" else {"radius": 0}
            assert client.post("/v1/plan", json={"ensemble": ensemble, "noise": noise, **asked_for}).status_code == 200


def test_a_verification_says_what_follows_in_other_norms(client: httpx2.Client) -> None:
    (text,) = post(client, "gaussian", radius=0.1).json()["certificates"]
    found = client.post("/v1/verify", json=text).json()["implied"]
    assert [(each["norm"], each["radius"]) for each in found] == [("l1", 0.1), ("linf", 0.007216)]
    assert client.post("/v1/verify", json={**text, "samples": 1}).json()["implied"] == []


FLOATS = np.full(SHAPE, 0.9001, np.float32)


@pytest.mark.parametrize(
    ("ensemble", "fields", "code", "words"),
    [
        ("uniform", {"radius": 0.5}, "radius_out_of_reach", "no number of samples"),
        ("uniform", {"radius": 0.25, "image": FLOATS}, "image_off_grid", "got 0.9000999927520752 at [0, 0, 0]"),
        (
            "gaussian",
            {"radius": 0.1, "noise": {"name": "rounded-gaussian", "sigma": 0.1}, "image": FLOATS},
            "image_off_grid",
            "images.0",
        ),
        ("replacement", {"radius": 1.5}, "invalid_request", "whole number for replacement noise, got 1.5"),
        ("replacement", {"radius": 1, "sigma": 0.25}, "noise_mismatch", "is gaussian, sigma 0.25"),
        (
            "replacement",
            {"radius": 1, "noise": {"name": "replacement", "keep": 0.5, "levels": 2}, "allow_noise_mismatch": True},
            "invalid_request",
            "keep must lie strictly between 1/levels = 0.5 and 1, got 0.5",
        ),
        ("gaussian", {"radius": 0.1, "noise": {"name": "uniform", "reach": 0.5}}, "noise_mismatch", "trained for"),
        ("splitting", {"radius": 0.1}, "procedure_mismatch", "ask for the procedure exact"),
        ("gaussian", {"procedure": "exact"}, "procedure_mismatch", "evaluates all outcomes of a noise"),
        (
            "gaussian",
            {"radius": 0.001, "noise": {"name": "gaussian-linf", "sigma": 0.1, "dimension": 3072}},
            "invalid_request",
            "dimension must be 192",
        ),
    ],
)
def test_wrong_uses_are_sentences(
    client: httpx2.Client, ensemble: str, fields: dict[str, Any], code: str, words: str
) -> None:
    answer = post(client, ensemble, fields.get("image", LIGHT), **{k: v for k, v in fields.items() if k != "image"})
    assert words in problem(answer, code).detail
