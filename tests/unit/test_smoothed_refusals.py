"""What `Smoothed` refuses, each with a sentence that says what was seen and what to do."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from smoothcert.engine.errors import (
    MemberError,
    NormalisationError,
    PixelsError,
    StreamError,
    VotingError,
)
from smoothcert.engine.smoothed import Smoothed
from smoothcert.errors import DomainError, SmoothcertError
from smoothcert.noise import Splitting
from smoothcert.procedures import PROCEDURES
from tests.support.smoothed import NOISE, QUICK, SHAPE, Constant, images, patches

LAST = PROCEDURES.offered[-1]
"""The end of the list of names that an error about an unknown procedure has."""


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"noise": 0.25}, DomainError, "noise must be a noise such as Gaussian(0.25), got 0.25"),
        ({"models": "resnet"}, MemberError, "there is no model 'resnet'; a model must be a torch.nn.Module, hf://"),
        ({"models": 7}, MemberError, "a model must be a torch.nn.Module, got int"),
        ({"models": []}, MemberError, "there are no models"),
        ({"consensus": 2}, VotingError, "consensus must be from 1 to 1, the number of members, got 2"),
        ({"consensus": 0}, VotingError, "consensus must be from 1 to 1, the number of members, got 0"),
        ({"voting": "loud"}, VotingError, "voting must be one of soft, softmax, hard; got 'loud'"),
        ({"voting": "weighted"}, VotingError, "voting must be one of soft, softmax, hard; got 'weighted'"),
        ({"voting": ["soft"]}, VotingError, "voting must be one of soft, softmax, hard; got ['soft']"),
        ({"classes": 1}, DomainError, "classes must be from 2 to"),
        ({"classes": "cat"}, MemberError, "classes must be a list of names or their number, got 'cat'"),
        ({"classes": ["cat", "cat"]}, MemberError, "two or more different names"),
        ({"mean": 0.5}, NormalisationError, "mean and std belong together, got mean 0.5 and std None"),
        ({"batch": 0}, DomainError, "batch must be from 1 to"),
    ],
)
def test_bad_options_are_sentences(options: dict[str, Any], error: type[SmoothcertError], message: str) -> None:
    given = {"models": patches(), "noise": NOISE, **options}
    with pytest.raises(error, match=re.escape(message)):
        Smoothed(given.pop("models"), given.pop("noise"), **given)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"classes": 3}, MemberError, "there are 3 classes, and the model returns 4 logits"),
        ({"mean": [0.5] * 2, "std": 1.0}, NormalisationError, "mean has 2 numbers, and the images have 3 channels"),
        ({"mean": 0.5, "std": 0.0}, NormalisationError, "every std positive"),
    ],
)
def test_options_that_do_not_fit_the_images_are_sentences(
    options: dict[str, Any], error: type[SmoothcertError], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        Smoothed(patches(), NOISE, **options).predict(images(1)[0])


def test_models_must_agree_on_the_classes() -> None:
    with pytest.raises(MemberError, match="the models have 4, 3 classes"):
        Smoothed([patches(), Constant().eval()], NOISE).predict(images(1)[0])


def imagenet(batch: Tensor) -> Tensor:
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return (batch - mean.view(1, 3, 1, 1)) / std.view(1, 3, 1, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.rand(2, *SHAPE) * 255, "they must lie in [0, 1]: divide them by 255, or pass them as uint8"),
        (imagenet(torch.rand(20, *SHAPE)), "They look normalised with mean (0.485, 0.456, 0.406)"),
        (torch.rand(2, *SHAPE) * 2, "leave the normalisation out of the loader and pass it to Smoothed as mean="),
        (torch.randn(2, *SHAPE) * 9, "leave the normalisation out of the loader and pass it to Smoothed as mean="),
        (torch.rand(4, 4), "images must have the shape [N, C, H, W] or [C, H, W], got (4, 4)"),
        (torch.rand(0, *SHAPE), "there are no images"),
        ([], "there are no images"),
        ([torch.rand(3, 4, 4), torch.rand(3, 4, 5)], "the images have different shapes: (3, 4, 4), (3, 4, 5)"),
        ("ship.png", "images must be tensors or numpy arrays in the order C, H, W, got builtins.str"),
        (torch.full(SHAPE, torch.nan), "not finite"),
        (torch.zeros(SHAPE, dtype=torch.int64), "dtype torch.int64"),
        (np.zeros(SHAPE, dtype=np.longdouble), "the images have the numpy dtype float128; it must be uint8, or"),
        (np.full(SHAPE, "a"), "the images have the numpy dtype <U1"),
        (np.zeros(SHAPE, dtype=object), "the images have the numpy dtype object"),
    ],
)
def test_bad_images_are_sentences(smoothed: Smoothed, given: Any, message: str) -> None:
    with pytest.raises(PixelsError, match=re.escape(message)):
        smoothed.certify(given, 0.1, procedure=QUICK)


def test_images_of_another_shape_are_refused(smoothed: Smoothed) -> None:
    smoothed.predict(images(1)[0], n=10)
    with pytest.raises(PixelsError, match=re.escape("have shape (3, 5, 5), and the first ones had (3, 4, 4)")):
        smoothed.predict(torch.rand(3, 5, 5), n=10)


def test_images_that_the_model_cannot_take_are_named(smoothed: Smoothed) -> None:
    with pytest.raises(MemberError, match=re.escape("Patches cannot take images of shape (1, 1, 9, 9)")):
        smoothed.predict(torch.rand(1, 9, 9), n=10)


def test_images_whose_channels_come_last_are_recognised() -> None:
    with pytest.raises(MemberError, match=re.escape("cannot take images of shape (1, 9, 9, 3)")) as refused:
        Smoothed(patches(), NOISE).predict(torch.rand(9, 9, 3), n=10)
    assert str(refused.value).endswith("; channels come first, [N, C, H, W]")
    with pytest.raises(MemberError, match="cannot take images") as refused:
        Smoothed(patches(), NOISE).predict(torch.rand(1, 9, 9), n=10)
    assert "channels come first" not in str(refused.value)


def test_a_noise_of_few_outcomes_is_not_sent_to_a_procedure_that_refuses_it() -> None:
    with pytest.raises(DomainError, match=r"proves the largest radius it can: leave the radius out$"):
        Smoothed(patches(), Splitting(1)).certify(images(1)[0], 0.5)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"radius": 9}, "radius 9 is beyond the largest provable one, 0.969465; it needs a p_A so close to 1 that"),
        ({"radius": 1}, "radius 1 is beyond the largest provable one, 0.969465; it would take 2"),
        ({"radius": -1}, "radius must be zero or more and finite, got -1"),
        (
            {"radius": 0.1, "procedure": "fixed"},
            "the fixed procedure proves the largest radius it can: leave the radius",
        ),
        (
            {"radius": 0.1, "procedure": {"name": "optimal", "radii": [0.1, 0.2]}},
            "radius must be left out where the procedure has radii, got 0.1",
        ),
        ({"radius": 0.1, "procedure": "predict"}, "the predict procedure proves no radius: leave the radius out"),
        ({"procedure": "sequential"}, "the sequential procedure needs a target radius"),
        ({"radius": 0.1, "procedure": "lucky"}, f"'{LAST}', got 'lucky'"),
        ({"radius": 0.1, "procedure": "sequentail"}, "got 'sequentail', did you mean sequential?"),
        ({"radius": 0.1, "procedure": {"name": None}}, f"'{LAST}', got None"),
        ({"radius": 0.1, "procedure": {"name": []}}, f"'{LAST}', got []"),
        ({"radius": 0.1, "procedure": {}}, "procedure: must have the field 'name', got {}"),
        ({"radius": 0.1, "procedure": {"name": "sequential", "max_samples": 0}}, "max_samples"),
        ({"radius": 0.1, "alpha": 2}, "alpha must lie strictly between 0 and 1, got 2"),
    ],
)
def test_questions_without_an_answer_are_sentences(smoothed: Smoothed, question: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=re.escape(message)):
        smoothed.certify(images(1)[0], **question)
    with pytest.raises(DomainError, match=re.escape(message)):
        smoothed.certify_many(images(1), **question)  # this comes before the first certificate is taken


def test_a_seed_must_be_text(smoothed: Smoothed) -> None:
    with pytest.raises(StreamError, match="a seed must be 1 to 256 printable ASCII characters"):
        smoothed.certify(images(1)[0], 0.1, procedure=QUICK, seed="")
    with pytest.raises(StreamError, match=r"got 'a{57}'\.\.\.$"):
        smoothed.certify(images(1)[0], 0.1, procedure=QUICK, seed="a" * 10**6)


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        ([{"pixel_values": 1, "label": 2}], "it yields dict with the keys 'pixel_values', 'label': use ((batch[key]"),
        (["a.png"], "it yields str"),
        ([(torch.rand(1, *SHAPE), [0], "a.png")], "it yields tuple of Tensor [1, 3, 4, 4], list, str: use ((batch[0]"),
        (
            [(torch.zeros(2), torch.rand(2, *SHAPE))],
            "it yields tuple of Tensor [2], Tensor [2, 3, 4, 4]: use ((batch[0]",
        ),
        ([torch.rand(1, *SHAPE)], "it yields a Tensor without labels"),
        (7, "images must come from a loader or another iterable, got int"),
        ([], "the loader yields no images; a generator that was read before is empty"),
        ([(torch.rand(2, *SHAPE), [0])], "there are 1 labels for 2 images"),
        ([(torch.rand(2, *SHAPE), [0, 4])], "a label must be the name of a class or its number from 0 to 3, got 4"),
        ([(torch.rand(2, *SHAPE), torch.eye(4)[:2])], "its number from 0 to 3, got [1.0, 0.0"),
        ([(torch.rand(2, *SHAPE), ["cat", "dog"])], "the label 'cat' is not one of the ensemble's 4 classes"),
        ([(torch.rand(1, *SHAPE), None)], "labels must be a sequence of classes, by name or number, got NoneType"),
    ],
)
def test_loaders_of_something_else_are_sentences(smoothed: Smoothed, loader: Any, message: str) -> None:
    with pytest.raises(DomainError, match=re.escape(message)):
        smoothed.evaluate(loader, 0.1, procedure=QUICK)


def test_many_images_come_with_or_without_labels_and_in_no_other_form(smoothed: Smoothed) -> None:
    with pytest.raises(DomainError, match=re.escape("the loader must yield images or pairs (images, labels)")):
        list(smoothed.certify_many([{"pixel_values": 1}], 0.1, procedure=QUICK))
    pairs = [(torch.rand(2, *SHAPE), np.array([0, 1]))]
    assert len(list(smoothed.certify_many(pairs, 0.1, procedure=QUICK))) == 2


def test_a_keyword_that_there_is_not_is_named(smoothed: Smoothed) -> None:
    with pytest.raises(
        TypeError, match="there is no keyword 'clases', did you mean classes\\?; there are models, noise"
    ):
        Smoothed(patches(), NOISE, clases=["a", "b", "c", "d"])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="there is no keyword 'gamma'; a question has the keywords radius, procedure"):
        smoothed.certify(images(1)[0], 0.1, gamma=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="family_wise is a keyword of certify alone"):
        smoothed.certify_many(images(1), 0.1, family_wise=True)  # type: ignore[call-arg]


def test_a_misspelt_keyword_of_predict_and_a_misspelt_vote_name_the_nearest() -> None:
    with pytest.raises(TypeError, match="there is no keyword 'sed', did you mean seed"):
        Smoothed(patches(0), noise=NOISE).predict(images(1), sed=1)  # type: ignore[call-arg]
    with pytest.raises(SmoothcertError, match="got 'sft', did you mean soft"):
        Smoothed(patches(0), noise=NOISE, voting="sft")
