"""`client.predict` and `smoothcert predict`, against a whole service."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from PIL import Image

from smoothcert import AsyncClient, Client, InvalidRequestError
from smoothcert.prediction import Prediction
from tests.support.api import encoded
from tests.support.command import one_sentence, png, smoothcert
from tests.support.questions import DARK, LIGHT


def test_the_class_of_each_image_is_found(client: Client) -> None:
    one = client.predict(LIGHT, ensemble="trivial")
    several = client.predict([DARK, LIGHT], ensemble="trivial", n=100)
    assert (one.class_name, one.samples, one.alpha) == ("light", 1000, 0.001)
    assert str(one) == "<Prediction 'light', 1,000 of 1,000 samples>"
    assert [(each.index, each.class_name, each.samples) for each in several] == [(0, "dark", 100), (1, "light", 100)]


def test_what_cannot_be_told_apart_is_none(client: Client) -> None:
    few = client.predict(LIGHT, ensemble="trivial", n=10)
    assert (few.class_index, few.class_name) == (None, None), "ten samples decide nothing at alpha 0.001"
    assert repr(few) == "<Prediction undecided, 10 samples>"


def test_the_asynchronous_client_predicts_the_same(service: str) -> None:
    async def predicted() -> Prediction:
        async with AsyncClient(service) as client:
            return await client.predict(DARK, ensemble="trivial")

    assert asyncio.run(predicted()).class_name == "dark"


def test_a_prediction_has_no_radius_and_some_samples(client: Client) -> None:
    for fields in ({"radius": 0.1}, {"procedure": "fixed"}):
        with pytest.raises(InvalidRequestError, match=f"a prediction has no {next(iter(fields))}"):
            client.predict(LIGHT, **fields)
    with pytest.raises(InvalidRequestError, match="must be at least 1"):
        client.predict(LIGHT, n=0)


def test_the_command_prints_classes(service: str, tmp_path: Path) -> None:
    for name, value in (("dark", 0), ("light", 255)):
        (tmp_path / f"{name}.png").write_bytes(png(value))
    both = [tmp_path / "dark.png", tmp_path / "light.png"]
    shown = smoothcert("predict", *both, "--ensemble", "trivial", url=service)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert [name in shown.stdout for name in ("dark.png", "light.png", "1,000")] == [True] * 3
    lines = smoothcert("predict", *both, "--ensemble", "trivial", "--n", "50", "--json", url=service).stdout
    assert [json.loads(line)["class_name"] for line in lines.splitlines()] == ["dark", "light"]
    few = smoothcert("predict", tmp_path / "light.png", "--ensemble", "trivial", "--n", "5", url=service)
    assert (few.returncode, "undecided" in few.stdout) == (3, True)
    assert smoothcert("predict", *both, "--ensemble", "trivial", "--alpha", "0,01", url=service).returncode == 0
    refused = smoothcert("predict", *both, "--ensemble", "nothing", url=service)
    one_sentence(refused, "there is no ensemble 'nothing'")


def test_a_file_of_another_size_is_resized_and_its_certificate_says_so(
    client: Client, service: str, tmp_path: Path
) -> None:
    (tmp_path / "large.png").write_bytes(encoded(Image.new("RGB", (30, 20), (255, 255, 255))))
    question = ("predict", tmp_path / "large.png", "--ensemble", "trivial", "--json")
    one_sentence(smoothcert(*question, url=service), "is 30 x 20 (width x height), wanted 8 x 8; --resize cover")
    done = smoothcert(*question, "--resize", "cover", url=service)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["class_name"] == "light"
    newest = next(iter(client.certifications.list()))
    (certificate,) = client.certifications.get(newest.id).certificates
    assert certificate.provenance is not None
    assert certificate.provenance.input.resized is not None
    assert certificate.provenance.input.resized.source == (30, 20)


def test_a_prediction_is_nowhere_called_certified(client: Client, service: str) -> None:
    found = client.certify([DARK, LIGHT], ensemble="trivial", procedure={"name": "predict", "n": 50})
    assert repr(found[1]).startswith("<Certificate predicted: 'light', ")
    assert [line.split() for line in repr(found).splitlines()[2:]] == [
        ["0", "predicted", "dark", "–", "–", "50"],
        ["1", "predicted", "light", "–", "–", "50"],
    ]
    assert repr(found).startswith("2 certificates: 2 predicted")
    newest = next(iter(client.certifications.list())).id
    watched = smoothcert("watch", newest, url=service)
    assert (watched.stdout.count("predicted"), watched.stdout.count("certified")) == (2, 0)
    assert "2 predicted" in smoothcert("list", "--most", 1, url=service).stdout
