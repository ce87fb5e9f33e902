"""From an image to a certificate through the whole service: HTTP, the queue, a real worker, real networks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import numpy as np
import pytest

from smoothcert.certification import Certification
from smoothcert.verification import verify
from tests.support.api import Api, npy, tensor
from tests.support.whole import whole_service
from tests.support.worker_networks import SHAPE
from tests.support.zoo import SIGMA, make_zoo

URL = "/v1/certifications"
WAIT = {"Prefer": "wait=60"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A separate service with one worker."""
    folder = tmp_path_factory.mktemp("whole")
    with whole_service(folder, make_zoo(folder / "zoo")) as api:
        yield api


def test_light_and_dark_images_are_certified(whole: Api) -> None:
    images = [tensor(np.full(SHAPE, value, np.uint8)) for value in (0, 255)]
    payload = {"ensemble": "trivial", "radius": 0.02, "procedure": "sequential", "images": images, "labels": [0, 1]}
    answer = whole.client.post(URL, json=payload, headers=WAIT)
    assert answer.status_code == 200, answer.text
    certification = Certification.model_validate_json(answer.content)
    assert certification.status == "succeeded", certification.error
    assert [(each.decision, each.class_name) for each in certification.certificates] == [
        ("certified", "dark"),
        ("certified", "light"),
    ]
    for each in certification.certificates:
        assert verify(each)
        assert each.noise.sigma == SIGMA
        verified = whole.client.post("/v1/verify", content=each.to_json(), headers={"Content-Type": "application/json"})
        assert verified.json()["consistent"]
    assert certification.progress.images_done == 2
    assert certification.progress.samples == sum(each.samples for each in certification.certificates)


def test_events_come_from_a_real_worker(whole: Api) -> None:
    payload = {"ensemble": "trivial", "radius": 0.02, "procedure": "sequential", "family_wise": True}
    array = np.stack([np.full(SHAPE, value, np.float32) for value in (0.0, 0.1, 0.9, 1.0)])
    headers = {"Content-Type": "application/x-npy"}
    answer = whole.client.post(URL, params={"request": json.dumps(payload)}, content=npy(array), headers=headers)
    assert answer.status_code == 202, answer.text
    with whole.client.stream("GET", answer.json()["urls"]["events"]) as stream:
        lines = list(stream.iter_lines())
    events = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert events.count("certificate") == 4
    assert events[-1] == "completed"
    last = whole.client.get(answer.headers["location"]).json()
    assert [each["family_wise"] for each in last["certificates"]] == [{"alpha": 0.001, "images": 4}] * 4


def test_a_long_one_is_canceled(whole: Api) -> None:
    images = [tensor(np.full(SHAPE, 128, np.uint8))] * 20
    payload = {"ensemble": "moody", "procedure": {"name": "fixed", "n": 1_000_000}, "images": images}
    here = whole.client.post(URL, json=payload).headers["location"]
    answer = whole.client.post(f"{here}/cancel")
    assert answer.status_code in (200, 202)
    ended = whole.client.get(here, headers=WAIT).json()
    assert ended["status"] == "canceled"
    assert whole.client.delete(here).status_code == 204


def test_the_ensembles_are_those_of_the_worker(whole: Api) -> None:
    served = whole.client.get("/v1/ensembles").json()["data"]
    assert [(each["name"], each["ready"], each["input_shape"]) for each in served] == [
        ("moody", True, list(SHAPE)),
        ("trivial", True, list(SHAPE)),
    ]
    assert whole.client.get("/readyz").status_code == 200


def test_many_clients_at_a_time_all_get_their_own(whole: Api) -> None:
    def ask(number: int) -> tuple[int, int]:
        value = 255 * (number % 2)
        payload = {
            "ensemble": "trivial",
            "radius": 0.02,
            "procedure": "sequential",
            "images": [tensor(np.full(SHAPE, value, np.uint8))],
            "metadata": {"number": str(number)},
        }
        url = f"http://127.0.0.1:{whole.port}{URL}"
        certification = httpx2.post(url, json=payload, headers=WAIT, timeout=90).json()
        return int(certification["request"]["metadata"]["number"]), certification["certificates"][0]["class_index"]

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(64))) == [(number, number % 2) for number in range(64)]
