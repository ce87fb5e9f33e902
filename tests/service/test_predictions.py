"""`POST /v1/predictions`: the class of the smoothed classifier, and the certificates that prove it."""

from __future__ import annotations

import threading
from typing import Any

import httpx2
import pytest

from smoothcert.certification import Certification
from smoothcert.prediction import Prediction, PredictionAnswer
from smoothcert.verification import verify
from tests.support.api import picture, problem, text
from tests.support.player import Player


def payload(player: Player, **fields: Any) -> dict[str, Any]:
    return {"ensemble": player.ensemble, "images": [text(picture())], **fields}


def read(answer: httpx2.Response) -> PredictionAnswer:
    return PredictionAnswer.model_validate_json(answer.content)


def test_a_prediction_is_answered_within_the_wait(client: httpx2.Client, player: Player) -> None:
    playing = threading.Thread(target=player.play)
    playing.start()
    answer = client.post("/v1/predictions", json=payload(player), headers={"Prefer": "wait=60"})
    playing.join()
    found = read(answer)
    (prediction,) = found.predictions
    assert (answer.status_code, found.status, found.error) == (200, "succeeded", None)
    assert (prediction.class_index, prediction.class_name, prediction.samples) == (1, "dog", 1000)
    assert prediction.counts[1] == 1000
    certification = Certification.model_validate_json(client.get(found.url).content)
    (certificate,) = certification.certificates
    assert verify(certificate)
    assert Prediction.of(certificate) == prediction


def test_a_prediction_that_waits_says_where_it_will_be(client: httpx2.Client, player: Player) -> None:
    procedure = {"name": "predict", "n": 20}
    answer = client.post("/v1/predictions", json=payload(player, procedure=procedure))
    found = read(answer)
    assert (answer.status_code, found.status, found.predictions) == (202, "queued", ())
    assert answer.headers["location"] == found.url == f"/v1/certifications/{found.id}"
    player.play()
    (certificate,) = Certification.model_validate_json(client.get(found.url).content).certificates
    assert (certificate.samples, certificate.stop_reason) == (20, "predicted")


def test_a_prediction_is_repeated_by_its_key(client: httpx2.Client, player: Player) -> None:
    answers = [
        client.post("/v1/predictions", json=payload(player), headers={"Idempotency-Key": player.name}) for _ in range(2)
    ]
    assert read(answers[0]) == read(answers[1])
    assert answers[1].headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"procedure": "fixed"}, "procedure: of a prediction must be 'predict', or left out; got 'fixed'"),
        ({"radius": 0.25}, "radius: must be left out, since the predict procedure proves no radius; got 0.25"),
        ({"procedure": {"name": "predict", "n": 0}}, "procedure.predict.n: must be at least 1, got 0"),
    ],
)
def test_what_is_not_a_prediction_is_refused(
    client: httpx2.Client, player: Player, fields: dict[str, Any], sentence: str
) -> None:
    assert sentence in problem(client.post("/v1/predictions", json=payload(player, **fields)), "invalid_request").detail
