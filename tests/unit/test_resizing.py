"""The box of a source that becomes an image, and the record of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from pydantic import ValidationError

from smoothcert.cli.options import request_fields
from smoothcert.client.fields import make_request
from smoothcert.errors import DomainError
from smoothcert.request import CertificationRequest
from smoothcert.resizing import Fit, Resize, ResizeRecord
from tests.support.attested import complete, with_every_record
from workers.replay import _resized

SOURCES = [(500, 375), (375, 500), (224, 224), (1, 1), (1000, 3), (17, 23)]


def record(resize: Resize, source: tuple[int, int], size: tuple[int, int] = (224, 224)) -> ResizeRecord:
    found = resize.model_copy(update={"sources": (source,), "by": "Pillow"}).record(0, size)
    assert found is not None
    return found


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("size", [(224, 224), (32, 64)])
@pytest.mark.parametrize("share", [1.0, 0.875])
def test_cover_is_the_largest_box_of_these_proportions_in_the_centre(
    source: tuple[int, int], size: tuple[int, int], share: float
) -> None:
    left, top, right, bottom = Resize(fit="cover", share=share).box(source, size)
    assert (right - left) / (bottom - top) == pytest.approx(size[0] / size[1])
    assert (left + right, top + bottom) == pytest.approx(source)
    assert max((right - left) / source[0], (bottom - top) / source[1]) == pytest.approx(share)
    assert min(left, top) >= 0
    assert right <= source[0]
    assert bottom <= source[1]


def test_center_cuts_pixels_out_and_changes_none() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 31, 3), np.uint8)
    cut = np.asarray(record(Resize(fit="center"), (31, 40), (8, 9)).apply(Image.fromarray(pixels)))
    np.testing.assert_array_equal(cut, pixels[15:24, 11:19])
    with pytest.raises(DomainError, match=r"is 7 x 40 .* cuts 8 x 9"):
        Resize(fit="center").box((7, 40), (8, 9))


@pytest.mark.parametrize("method", ["nearest", "box", "bilinear", "bicubic", "lanczos"])
def test_a_method_is_the_one_of_pillow_with_this_name(method: str) -> None:
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 31, 3), np.uint8))
    made = record(Resize(fit="stretch", method=method), (31, 40), (8, 8)).apply(picture)  # type: ignore[arg-type]
    named = getattr(Image.Resampling, method.upper())
    assert made.tobytes() == picture.resize((8, 8), named).tobytes()


def test_an_image_of_the_right_size_stays_as_it_is() -> None:
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8))
    for fit in ("cover", "stretch", "center"):
        assert record(Resize(fit=fit), (8, 8), (8, 8)).apply(picture).tobytes() == picture.tobytes()


@pytest.mark.parametrize("source", SOURCES)
def test_a_record_is_checked_by_computing_its_box_again(source: tuple[int, int]) -> None:
    stated = record(Resize(fit="cover", share=0.7), source)
    again = ResizeRecord.model_validate_json(stated.model_dump_json())
    assert again == stated
    assert stated.objection((3, 224, 224)) is None
    for change, word in [
        ({"box": (0.0, 0.0, 0.5, 0.5)}, "box"),
        ({"size": (224, 223)}, "size"),
        ({"method": None}, "method"),
        ({"share": 0.6}, "box"),
        ({"fit": "stretch"}, "share"),
    ]:
        objection = stated.model_copy(update=change).objection((3, 224, 224))
        assert objection is not None
        assert word in objection


@pytest.mark.parametrize(
    "wrong",
    [
        {"fit": "fill"},
        {"fit": "cover", "method": "best"},
        {"fit": "cover", "share": 0.0},
        {"fit": "cover", "share": 1e-300},
        {"method": "box"},
    ],
)
def test_other_ways_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Resize.model_validate(wrong)


def test_a_share_goes_with_cover_alone() -> None:
    with pytest.raises((ValidationError, DomainError), match="a share goes with the fit cover"):
        Resize(fit="stretch", share=0.5)


@pytest.mark.parametrize("fit", ["cover", "stretch", "center"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_replay_makes_the_certified_pixels_of_the_source(fit: Fit, channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (channels, 40, 31), np.uint8)
    stated = record(Resize(fit=fit), (31, 40), (8, 9))
    picture = Image.fromarray(pixels[0] if channels == 1 else pixels.transpose(1, 2, 0))
    expected = np.asarray(stated.apply(picture)).reshape(9, 8, channels).transpose(2, 0, 1)
    np.testing.assert_array_equal(_resized(torch.from_numpy(pixels), stated).numpy(), expected)


@pytest.mark.parametrize("text", ["cover", '{"fit": "cover"}'])
def test_the_command_takes_a_name_or_an_object(text: str) -> None:
    fields = request_fields(procedure="fixed", noise=None, resize=text)
    assert make_request(fields, CertificationRequest).resize == Resize(fit="cover")  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="--resize"):
        request_fields(procedure="fixed", noise=None, resize="{cover")


def test_of_an_abstention_nothing_is_said_to_be_certified() -> None:
    certified, abstained = (with_every_record(complete(radius=radius)) for radius in (0.25, 0.75))
    assert (certified.decision, abstained.decision) == ("certified", "abstain")
    assert any("What was certified is a resized image" in remark for remark in certified.remarks)
    assert any("What was examined is a resized image" in remark for remark in abstained.remarks)
    assert not any("What was certified" in remark for remark in abstained.remarks)
