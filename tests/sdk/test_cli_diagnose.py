"""`smoothcert diagnose` reads a few labelled images and prints sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command import one_sentence, smoothcert
from tests.support.rogue import Rogue, changed

TRIVIAL = ("--ensemble", "trivial")
VALUES = (0, 10, 240, 255)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two dark and two light images with their labels."""
    monkeypatch.chdir(tmp_path)
    return save(tmp_path / "data.npz", VALUES, ["dark", "dark", "light", "light"])


def save(path: Path, values: Any, labels: Any) -> Path:
    np.savez(path, images=np.stack([np.full((8, 8, 3), value, np.uint8) for value in values]), labels=labels)
    return path


def findings(*arguments: object, url: str) -> dict[str, Any]:
    done = smoothcert("diagnose", *arguments, "--json", url=url)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return {**found, **{each["name"]: each for each in found["findings"]}}


def test_a_good_ensemble_is_found_to_be_good(rogue: Rogue, data: Path) -> None:
    found = findings(data, *TRIVIAL, url=rogue.url)
    assert (found["ensemble"], found["images"], found["healthy"]) == ("trivial", 4, True)
    assert found["accuracy under noise"]["value"] == {
        "gaussian, sigma 0.02": 1.0,
        "gaussian, sigma 0.01": 1.0,
        "gaussian, sigma 0.04": 1.0,
    }
    assert found["certifiable"]["value"] == {"0.01": 1.0, "0.02": 1.0, "0.03": 1.0}
    assert found["most frequent answer"]["value"]["share"] == 0.5
    sent = [json.loads(seen.body) for seen in rogue.requests("POST /v1/certifications")]
    assert [each["noise"]["sigma"] for each in sent] == [0.02, 0.01, 0.04]
    assert all(each["procedure"]["n"] == 200 and each["allow_noise_mismatch"] for each in sent)


def test_it_is_said_in_sentences_and_what_cannot_be_seen_from_here_too(service: str, data: Path) -> None:
    done = smoothcert("diagnose", data, *TRIVIAL, url=service)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("trivial, 4 images of data.npz\n")
    assert "100 % under gaussian, sigma 0.02, 100 % under gaussian, sigma 0.01" in done.stdout
    for where in ("clean accuracy, normalisation", "`python -m models diagnose`", "`Smoothed.diagnose`"):
        assert where in done.stdout


def test_a_constant_answer_is_a_sign_of_wrong_pixels(service: str, tmp_path: Path) -> None:
    path = save(tmp_path / "dark.npz", (0, 1, 2, 3), [0, 1, 1, 1])
    found = findings(path, *TRIVIAL, url=service)
    assert found["most frequent answer"]["value"] == {"class": "dark", "share": 1.0, "labels": 2}
    assert "wrongly normalised" in found["most frequent answer"]["advice"]
    assert found["accuracy under noise"]["value"]["gaussian, sigma 0.02"] == 0.25
    assert "in the order of the ensemble's" in found["accuracy under noise"]["advice"]
    assert set(found["certifiable"]["value"].values()) == {0.25}


def test_only_so_many_images_are_used_and_they_are_spread(service: str, data: Path) -> None:
    found = findings(data, *TRIVIAL, "--images", 2, "--noise", "gaussian:sigma=0.01", url=service)
    assert found["images"] == 2
    assert [*found["accuracy under noise"]["value"]] == [f"gaussian, sigma {sigma}" for sigma in (0.01, 0.005, 0.02)]
    assert found["most frequent answer"]["value"]["share"] == 0.5


def test_where_the_noise_is_unknown_it_must_be_named(rogue: Rogue, data: Path) -> None:
    rogue.plan("/v1/ensembles/trivial", changed(lambda served: served.update(noise=None)))
    one_sentence(smoothcert("diagnose", data, *TRIVIAL, url=rogue.url), "--noise is needed: the noise that trivial was")
