"""A noise and a procedure that are defined in this file are served, and no other file knows them.

They go through an ensemble.toml, HTTP, Redis, a worker, the certificate, `verify`, POST /v1/verify and `replay`. The
API and the worker are real processes that call `register` before they start, as a program with its own noises would.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import httpx2
import numpy as np
import pytest
from pydantic import Field
from scipy.stats import kstest

from app.local.embedded import EmbeddedServer
from smoothcert.boundaries import Boundaries
from smoothcert.bounds import lower_bound
from smoothcert.certificate import Certificate
from smoothcert.errors import DomainError, require_positive
from smoothcert.kinds import Kinds
from smoothcert.noise import NOISES, Noise, Source
from smoothcert.procedures import PROCEDURES, Parameters, Procedure
from smoothcert.procedures.parameters import WholeNumber
from smoothcert.procedures.protocol import draw, draw_more, no_class, pool, top_class
from smoothcert.procedures.thresholds import least_certifying, proves
from smoothcert.verdict import Stage, StageOutcome, Verdict
from smoothcert.verification import verify
from tests.support.api import ROOT, Api, problem, tensor
from tests.support.pool import Pool
from tests.support.questions import GREY
from tests.support.worker_networks import SHAPE

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Box(Noise):
    """Uniform noise on [-reach, reach] in every pixel, with radii in the l1 norm (Yang et al., 2020)."""

    reach: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
    name: Literal["box"] = field(default="box", kw_only=True)
    norm: Literal["l1"] = field(default="l1", kw_only=True)

    scheme: ClassVar[str] = "erf-of-torch-normal-32"

    def __post_init__(self) -> None:
        require_positive("reach", self.reach)

    @property
    def label(self) -> str:
        return f"box, reach {self.reach:g}"

    def radius(self, p_lower: float) -> float:
        if not 0.0 <= p_lower <= 1.0:
            raise DomainError(f"p_lower must lie between 0 and 1, got {p_lower!r}")
        return 2 * self.reach * (p_lower - 0.5)

    def probability(self, radius: float) -> float:
        self.require_radius(radius)
        return min(1.0, 0.5 + radius / (2 * self.reach))

    def draw(self, source: Source, block: int, shape: tuple[int, ...]) -> Tensor:
        # erf(x / sqrt 2) = 2 Phi(x) - 1 is uniform on [-1, 1] for a normal x.
        return source.normal(block, shape).div_(math.sqrt(2)).erf_()

    def apply(self, out: Tensor, settled: Tensor, drawn: Tensor) -> None:
        out.copy_(settled).add_(drawn, alpha=self.reach)

    def perturb(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return images + images.new_empty(images.shape).uniform_(-self.reach, self.reach, generator=generator)


class TwoLooks(Parameters):
    """A procedure that looks at the count twice, each time with half of alpha, and never abandons."""

    budget: ClassVar[str] = "second"

    name: Literal["two-looks"] = "two-looks"
    first: WholeNumber = 100
    """The samples of the first look."""
    second: WholeNumber = 1_000
    """The further samples of the second look."""

    @property
    def label(self) -> str:
        return "two looks"

    def start(self, noise: Noise, radius: float | None, *, alpha: float, beta: float) -> Procedure:
        return self._run(noise, self.target(radius), alpha / 2)

    def _run(self, noise: Noise, radius: float, alpha: float) -> Procedure:
        selection = yield from draw(self.n0)
        if (chosen := top_class(selection)) is None:
            return no_class(selection)
        kept, history = (0,) * len(selection), []
        looks: tuple[tuple[int, StageOutcome], ...] = ((self.first, "continued"), (self.second, "exhausted"))
        for size, outcome in looks:
            counts = yield from draw_more(size, selection)
            kept = pool(kept, counts)
            n, count = sum(kept), kept[chosen]
            p_lower = lower_bound(count, n, alpha)
            if proves(noise, p_lower, radius):
                history.append(Stage(counts, n, count, "certified", p_lower))
                proved = noise.radius(p_lower)
                return Verdict(chosen, proved, p_lower, self.n0 + n, "certified", tuple(history), selection)
            history.append(Stage(counts, n, count, outcome, p_lower))
        return Verdict(None, 0.0, p_lower, self.n0 + n, "exhausted", tuple(history), selection)

    def boundaries(self, noise: Noise, radius: float, *, alpha: float, beta: float) -> Boundaries:
        looks = [self.first, self.first + self.second]
        certify = [least_certifying(noise, radius, n, alpha / 2) for n in looks]
        return Boundaries(np.array(looks), np.array(certify), np.array([-1, -1]))

    @property
    def most_samples(self) -> int:
        return self.first + self.second

    @property
    def look_count(self) -> int:
        return 2

    def last_alpha(self, alpha: float) -> float:
        return alpha / 2


def register() -> None:
    NOISES.add(Box)
    PROCEDURES.add(TwoLooks)


LAUNCH = """
import runpy, sys
from tests.service.test_seam import register
register()
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
"""A script that runs `python -m <module>` in a process that knows this file's noise and procedure."""


class PoolThatKnows(Pool):
    command = (sys.executable, "-c", LAUNCH, "workers")


class ApiThatKnows(Api):
    command = (sys.executable, "-c", LAUNCH, "app")


NOISE = Box(0.5)
NAME = "boxed"
ALLOWED = "tests.support.worker_networks:trivial"
RADIUS = 0.3
DEVIATION = NOISE.reach / math.sqrt(3 * math.prod(SHAPE))
"""The standard deviation of the mean of an image's noise; the network looks at the mean alone."""
IMAGE = np.full(SHAPE, GREY + 1.2 * DEVIATION, np.float32)
"""An image whose p_A is about Phi(1.2) = 0.885, where RADIUS needs 0.8.

The 20 samples of the first look cannot prove that; the 2,020 of the second prove it for practically every seed.
"""
QUESTION: dict[str, Any] = {
    "ensemble": NAME,
    "noise": {"name": "box", "reach": NOISE.reach},
    "procedure": {"name": "two-looks", "first": 20, "second": 2_000},
    "radius": RADIUS,
    "images": [tensor(IMAGE)],
}


@pytest.fixture(scope="module")
def known() -> Iterator[None]:
    """Register them in this process, for the tests of this file alone."""

    def restore(family: Kinds[Any], kinds: dict[str, Any]) -> None:
        family._kinds, family._validator = kinds, None

    before = [(family, dict(family._kinds)) for family in (NOISES, PROCEDURES)]
    register()
    yield
    for family, kinds in before:
        restore(family, kinds)


@pytest.fixture(scope="module")
def zoo(known: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ensemble whose ensemble.toml names the noise."""
    import torch

    from models.addition import Addition, add
    from tests.support.worker_networks import state

    folder = tmp_path_factory.mktemp("seam")
    torch.save(state(0.0), folder / "first.pt")
    torch.save(state(1.0), folder / "second.pt")
    addition = Addition(
        classes=("dark", "light"), input_shape=SHAPE, architecture=ALLOWED, noise=NOISE, method="by hand"
    )
    files = [folder / "first.pt", folder / "second.pt"]
    ensemble = add(NAME, files, addition, zoo=folder / "zoo", allowed_imports=frozenset({ALLOWED}))
    assert ensemble.noise == NOISE
    return folder / "zoo"


@pytest.fixture(scope="module")
def client(zoo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A client of a separate service: server, API and worker."""
    folder = tmp_path_factory.mktemp("service")
    with EmbeddedServer(folder / "server") as server, ApiThatKnows(server.url, folder) as api:
        pool = PoolThatKnows(server, zoo, "seam")
        try:
            pool.start()
            yield api.client
        finally:
            pool.end()


@pytest.fixture(scope="module")
def text(client: httpx2.Client) -> str:
    """The certificate as the service returns it."""
    answer = client.post("/v1/certifications", json=QUESTION, headers={"Prefer": "wait=60"})
    assert answer.status_code == 200, answer.text
    certification = answer.json()
    assert certification["status"] == "succeeded", certification
    assert certification["request"]["noise"] == {"name": "box", "norm": "l1", "reach": 0.5}
    assert certification["request"]["procedure"]["name"] == "two-looks"
    (certificate,) = certification["certificates"]
    return json.dumps(certificate)


def test_the_noise_is_uniform() -> None:
    import torch

    from smoothcert.engine.sampling import NoisyImage

    out = torch.empty(320, *SHAPE)
    NoisyImage(NOISE, torch.full(SHAPE, 0.25), "seed", 0).sample(out, 0)
    assert kstest(out.numpy().ravel() - 0.25, "uniform", args=(-0.5, 1.0)).pvalue > 1e-4


def test_ensemble_toml_and_the_card_show_the_noise(zoo: Path, client: httpx2.Client) -> None:
    toml = (zoo / NAME / "ensemble.toml").read_text()
    assert "[noise]" in toml
    assert 'name = "box"' in toml
    assert "sigma" not in toml
    (card,) = client.get("/v1/ensembles").json()["data"]
    assert card == client.get(f"/v1/ensembles/{NAME}").json()
    assert card["noise"] == {"name": "box", "norm": "l1", "reach": 0.5}
    assert "two-looks" in card["procedures"]


def test_the_certificate_certifies_at_the_second_look_and_verifies(text: str, client: httpx2.Client) -> None:
    certificate = Certificate.from_json(text)
    assert (certificate.noise, certificate.procedure) == (NOISE, TwoLooks(first=20, second=2_000))
    assert (certificate.decision, certificate.class_name) == ("certified", "light")
    assert [stage.outcome for stage in certificate.stages] == ["continued", "certified"]
    assert certificate.provenance is not None
    assert certificate.provenance.sampling.scheme.endswith(Box.scheme)
    # The radius by hand is 2 reach (p_lower - 1/2), floored to six decimals.
    p_lower = lower_bound(certificate.stages[1].count, 2_020, 0.001 / 2)
    assert certificate.radius == math.floor((p_lower - 0.5) * 1e6) / 1e6
    assert certificate.radius >= RADIUS
    assert verify(certificate).problems == ()
    verified = client.post("/v1/verify", json=json.loads(text)).json()
    assert (verified["consistent"], verified["problems"]) == (True, [])
    forged = json.loads(text) | {"radius": 0.4}
    assert not verify(Certificate.model_validate(forged))
    assert client.post("/v1/verify", json=forged).json()["consistent"] is False


def test_the_certificate_replays_to_the_same_counts(text: str, zoo: Path, tmp_path: Path) -> None:
    certificate, image = tmp_path / "certificate.json", tmp_path / "image.npy"
    certificate.write_text(text)
    np.save(image, IMAGE)
    arguments = ["replay", str(certificate), str(image), "--zoo", str(zoo), "--allow-import", ALLOWED]
    done = subprocess.run([*PoolThatKnows.command, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the same: certified" in done.stdout

    stranger = subprocess.run([*Pool.command, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert stranger.returncode == 1
    assert "box" in stranger.stderr
    assert "Traceback" not in stranger.stderr


def test_a_request_without_a_noise_gets_that_of_the_ensemble(client: httpx2.Client) -> None:
    request = {name: value for name, value in QUESTION.items() if name != "noise"}
    answer = client.post("/v1/certifications", json=request, headers={"Prefer": "wait=60"})
    assert answer.json()["certificates"][0]["noise"] == {"name": "box", "norm": "l1", "reach": 0.5}


def test_another_noise_than_that_of_the_ensemble_is_a_mismatch(client: httpx2.Client) -> None:
    for noise in ({"name": "gaussian", "sigma": 0.25}, {"name": "box", "reach": 0.25}):
        found = problem(client.post("/v1/certifications", json=QUESTION | {"noise": noise}), "noise_mismatch")
        assert "box, reach 0.5" in str(found)


def test_the_plan_knows_the_noise_and_the_procedure(client: httpx2.Client) -> None:
    request = {name: value for name, value in QUESTION.items() if name != "images"}
    answer = client.post("/v1/plan", json=request)
    assert answer.status_code == 200, answer.text
    planned = answer.json()
    assert planned["p0"] == pytest.approx(0.8)
    assert planned["feasible"] is True
    assert planned["most_samples"] == 100 + 2_020
