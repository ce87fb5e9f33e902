"""The first question that `make serve` proposes is one that the service can answer."""

from __future__ import annotations

import io
import json

import pytest
from PIL import Image

from app.docs.examples import served
from app.local.trial import Trial, shipped, trials
from app.samples import sheets
from smoothcert.noise import Gaussian, Noise, Replacement, Splitting
from smoothcert.plan import plan
from smoothcert.procedures import PROCEDURES
from smoothcert.published import EnsembleList, ServedEnsemble

CIFAR = sheets()["cifar10-test-100"]
NOISE = Gaussian(0.25)


def ensemble(name: str = "own", *, noise: Noise | None = NOISE, **fields: object) -> ServedEnsemble:
    return served().model_copy(update={"name": name, "default": False, "noise": noise, **fields})


def trial(served: EnsembleList) -> Trial | None:
    return next(iter(trials(served)), None)


def test_the_shipped_ensemble_gets_the_question_of_the_readme() -> None:
    found = trial(EnsembleList(data=(ensemble(classes=CIFAR.classes, default=True), ensemble("other"))))
    assert found == shipped()


def test_an_ensemble_that_is_not_the_default_is_named_only_among_several() -> None:
    one = trial(EnsembleList(data=(ensemble(), ensemble("away", ready=False))))
    two = trial(EnsembleList(data=(ensemble(), ensemble("other"))))
    assert one is not None
    assert two is not None
    assert "ensemble" not in json.loads(one.request)
    assert json.loads(two.request)["ensemble"] == "own"


def test_every_shipped_sheet_gives_a_sample_to_an_ensemble_that_is_held() -> None:
    """The shipped ensembles give a ship for two of them, and a digit for the third."""
    digits = sheets()["mnist-test-100"]
    held = (
        ensemble("l0", noise=Replacement(0.8, 2), input_shape=digits.shape, classes=digits.classes),
        ensemble("l1", classes=CIFAR.classes),
        ensemble("l2", classes=CIFAR.classes, default=True),
        ensemble("of-other-images", input_shape=(3, 20, 30)),
    )
    first, second = trials(EnsembleList(data=held))
    assert first == shipped()
    assert json.loads(second.request)["ensemble"] == "l0"
    assert second.file == f"{digits.classes[digits.labels[0]]}.png"
    with Image.open(io.BytesIO(second.image)) as image:
        assert (image.mode, image.size) == ("L", (28, 28))


@pytest.mark.parametrize("shape", [(3, 20, 30), (1, 7, 5)])
def test_the_image_has_the_size_that_the_ensemble_takes(shape: tuple[int, int, int]) -> None:
    found = trial(EnsembleList(data=(ensemble(input_shape=shape),)))
    assert found is not None
    with Image.open(io.BytesIO(found.image)) as image:
        assert (len(image.getbands()), image.height, image.width) == shape
    assert found.file == f"grey-{shape[2]}x{shape[1]}.png"


@pytest.mark.parametrize(
    "noise", [Gaussian(0.01), Gaussian(1.0), Replacement(0.8, 2), Replacement(0.8, 256), Splitting(0.5)]
)
def test_the_question_can_be_answered_under_the_noise(noise: Noise) -> None:
    found = trial(EnsembleList(data=(ensemble(noise=noise),)))
    assert found is not None
    request = json.loads(found.request)
    if noise.exhaustible:
        assert request == {"procedure": "exact"}
    else:
        assert request["radius"] > 0
        kind = PROCEDURES[request["procedure"]].model_validate({})
        assert plan(kind, noise, request["radius"], alpha=0.001, beta=0.001).feasible


def test_nothing_is_proposed_where_nothing_is_served() -> None:
    assert trial(EnsembleList(data=())) is None
    assert trial(EnsembleList(data=(ensemble(noise=None),))) is None
