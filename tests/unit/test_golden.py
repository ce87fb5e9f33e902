"""Counts and certificates of the first edition: they verify, and today's engine draws the same samples.

`golden/sequential.json`, `adaptive.json` and `fixed.json` are certificates of format 1 of the shipped ensemble's first
test image. `golden/patches.json` has the counts of three images under a small network, for several K.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from models.data import load_images
from models.registry import ZOO
from smoothcert.certificate import Certificate
from smoothcert.engine.engine import Engine
from smoothcert.verification import verify
from tests.support.engines import NOISE, draws, ensemble, images
from workers.replay import replay

GOLDEN = Path(__file__).parent / "golden"
NAMES = ("sequential", "adaptive", "fixed")
HERE = {"torch": torch.__version__, "cpu": torch.backends.cpu.get_cpu_capability()}


def read(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def require_generator(versions: dict[str, str]) -> None:
    """Skip the test if torch draws other numbers from the same seed."""
    there = {name: versions[name] for name in HERE}
    if there != HERE:
        pytest.skip(f"the counts were drawn with {there}, and this machine has {HERE}")


@pytest.mark.parametrize("name", NAMES)
def test_a_certificate_of_the_first_edition_verifies_and_reads_as_it_was_written(name: str) -> None:
    certificate = Certificate.from_json((GOLDEN / f"{name}.json").read_text())
    assert verify(certificate).problems == ()
    assert json.loads(certificate.to_json()) == read(name)
    assert certificate.expected_digest() == read(name)["digest"]


@pytest.mark.parametrize("name", NAMES)
def test_a_certificate_of_the_first_edition_replays_count_for_count(name: str) -> None:
    written = read(name)
    require_generator(written["provenance"]["versions"])
    image = torch.from_numpy(load_images(ZOO / "cifar10-test-100.json").pixels[0])
    again = replay(Certificate.from_json(json.dumps(written)), image)
    assert again.differences == ()
    repeated = json.loads(again.certificate.to_json())
    for changing in ("versions", "started_at", "finished_at"):
        del written["provenance"][changing], repeated["provenance"][changing]
    del written["digest"], repeated["digest"]
    assert repeated == written


@pytest.mark.parametrize("consensus", [None, 1, 2])
def test_the_engine_draws_the_counts_of_the_first_edition(consensus: int | None) -> None:
    golden = read("patches")
    require_generator(golden)
    with Engine(ensemble(3, consensus=consensus), batch=32) as engine:
        handles = [
            engine.submit(draws(100, 32, 7, 500), image, NOISE, "the first edition", index=i)
            for i, image in enumerate(images(3))
        ]
        found = [handle.result(60) for handle in handles]
    assert [
        {"counts": [list(draw) for draw in each.verdict], "evaluations": each.evaluations}  # type: ignore[attr-defined]
        for each in found
    ] == golden["by_consensus"][str(consensus)]
