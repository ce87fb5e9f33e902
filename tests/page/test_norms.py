"""Questions and answers in every norm: words, form, pictures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from smoothcert.noise import Uniform
from smoothcert.verdict import floor_radius
from tests.page.service import OTHERS, Open, PageService
from tests.support.api import encoded
from tests.support.visit import Visit, grey
from tests.support.worker_networks import SHAPE
from tests.support.zoo import SIGMA

LEVEL = 230
"""Every value of the image: light, with room for changes on both sides."""
VALUES = math.prod(SHAPE)


Change = npt.NDArray[np.int64]


def canvases(opened: Visit) -> list[Change]:
    """The pixels of the pictures of each change, true and amplified, without opacity and minus the image's."""
    opened.page.wait_for_function(
        """() => [...document.querySelectorAll(".changes canvas")].every((each) =>
             each.getContext("2d").getImageData(0, 0, 1, 1).data[3] === 255)"""
    )
    seen = opened.page.evaluate(
        """() => [...document.querySelectorAll(".changes li")].map((each) =>
             [...each.querySelectorAll("canvas")].map((canvas) =>
               [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data]))"""
    )
    return [np.stack([reduced(data) for data in each]) - LEVEL for each in seen]


def reduced(data: list[int]) -> Change:
    """One pixel of the picture for each of the image; a picture with frames is drawn larger."""
    side = math.isqrt(len(data) // 4)
    step = side // SHAPE[1]
    return np.array(data).reshape(side, side, 4)[step // 2 :: step, step // 2 :: step, :3]


def moved_everywhere(changes: list[Change]) -> None:
    """In l-infinity, every value moves by the radius; changes that cannot be seen are amplified."""
    mixed, lighter = changes
    assert set(np.unique(mixed[0])) == {-1, 1}, "255 * 0.004, rounded to pixels"
    assert set(np.unique(lighter[0])) == {1}
    assert np.abs(mixed[1]).max() >= 24


def moved_on_few_values(changes: list[Change]) -> None:
    """In l1, the changes of few values add up to the radius; each is framed in a second picture."""
    for each, count in zip(changes, (1, 16), strict=True):
        assert np.count_nonzero(each[0]) == count
        assert np.abs(each[0]).sum() == pytest.approx(0.25 * 255, abs=0.5 * count)
    assert [len(each) for each in changes] == [2, 2]


def of_length(radius: float) -> Callable[[list[Change]], None]:
    """In l2, changes of all values, of a patch and of one value have the length of the radius."""

    def check(changes: list[Change]) -> None:
        for each, count in zip(changes, (VALUES, 4 * 4 * 3, 1), strict=True):
            assert np.count_nonzero(each[0]) in {count, 0}, "a change below half a level cannot be drawn"
            length = math.sqrt((each[0] ** 2).sum())
            assert length == pytest.approx(radius * 255, abs=0.5 * math.sqrt(count))

    return check


def replaced(radius: int, *, grey_image: bool) -> Callable[[list[Change]], None]:
    """In l0, as many values as the radius says move to the other end of the scale; one channel stays grey."""

    def check(changes: list[Change]) -> None:
        assert len(changes) == (1 if radius == 1 else 2)
        for (each,) in changes:
            values = each[..., :1] if grey_image else each
            assert np.count_nonzero(values) == radius
            assert set(np.unique(values)) == {0, -LEVEL}
            assert not grey_image or np.array_equal(each, np.repeat(values, 3, axis=-1))

    return check


@dataclass(frozen=True)
class Case:
    """A question, and what the answer must say."""

    ensemble: str
    noise: str
    radius: str
    claim: str
    symbols: str
    implied: str
    ball: str
    pictures: Callable[[list[Change]], None]


CASES = [
    Case(
        "trivial",
        "gaussian",
        "0.02",
        "of Euclidean length below 0.02, with float32 taken for real numbers, changes",
        "at every image x′ with ‖x′ − x‖₂ < 0.02.",
        "whose absolute changes add up to less than 0.02, or that changes each value by less than 0.001443.",
        "circle.ball-edge",
        of_length(0.02),
    ),
    Case(
        "trivial",
        "rounded-gaussian",
        "0.06",
        "of Euclidean length below 0.06, among 8-bit images, changes",
        "at every 8-bit image x′ with ‖x′ − x‖₂ < 0.06; in bytes a, Σ\u00a0(a′ᵢ − aᵢ)² < (255 · 0.06)².",
        "whose absolute changes add up to less than 0.06, or that changes each value by less than 0.00433.",
        "circle.ball-edge",
        of_length(0.06),
    ),
    Case(
        "trivial",
        "gaussian-linf",
        "0.004",
        "that changes each value by less than 0.004, with float32 taken for real numbers, changes",
        "at every image x′ with |x′ᵢ − xᵢ| < 0.004 for all i, which is less than 1.02 of 255 levels.",
        "of Euclidean length below 0.055425, or whose absolute changes add up to less than 0.055425.",
        "path.ball-edge[d^='M-1-1']",
        moved_everywhere,
    ),
    Case(
        "with-uniform",
        "uniform",
        "0.25",
        "whose absolute changes add up to less than 0.25, among 8-bit images, changes",
        "at every 8-bit image x′ with ‖x′ − x‖₁ < 0.25; in bytes a, Σ\u00a0|a′ᵢ − aᵢ| < 255 · 0.25.",
        "of Euclidean length below 0.031372.",
        "path.ball-edge[d^='M0-1']",
        moved_on_few_values,
    ),
    Case(
        "with-replacement",
        "replacement",
        "1",
        "that changes at most 1 value, whatever it becomes, changes",
        "that differs from x in at most 1 value, whatever it becomes. A value is one channel of one pixel.",
        "",
        "rect.mark",
        replaced(1, grey_image=False),
    ),
    Case(
        "with-replacement-grey",
        "replacement",
        "3",
        "that changes at most 3 values, whatever they become, changes",
        "that differs from x in at most 3 values, whatever they become. A value is the grey of one pixel.",
        "",
        "rect.mark",
        replaced(3, grey_image=True),
    ),
]


def image_for(ensemble: str) -> bytes:
    return encoded(Image.new("L", SHAPE[:0:-1], LEVEL)) if ensemble.endswith("grey") else grey(LEVEL)


def certified(visit: Open, service: PageService, case: Case, **context: Any) -> Visit:
    opened = visit(service.address, **context)
    opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    opened.ask(ensemble=case.ensemble)
    opened.page.click("#more summary")
    if opened.page.locator("#noise-kind").is_visible():
        opened.page.locator("#noise-kind").select_option(case.noise)
    opened.ask(radius=case.radius)
    opened.choose(image_for(case.ensemble))
    opened.certify()
    opened.page.wait_for_selector(".claim")
    return opened


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.noise}-{case.ensemble}")
def test_a_certificate_is_told_and_pictured_in_its_norm(visit: Open, service: PageService, case: Case) -> None:
    scheme = "dark" if case.noise in ("uniform", "rounded-gaussian") else "light"
    opened = certified(visit, service, case, viewport={"width": 390, "height": 800}, color_scheme=scheme)
    page = opened.page
    assert case.claim in opened.text(".claim")
    assert case.symbols in opened.text(".words")
    (certificate,) = service.get(opened.certification)["certificates"]
    assert certificate["noise"]["name"] == case.noise
    if case.implied:
        page.wait_for_selector(f".implied:text({case.implied!r})")
    else:
        page.wait_for_selector(".readout :text('p_A in')")
        assert page.locator(".implied").text_content() == ""
    marks = int(case.radius) if "mark" in case.ball else 1
    assert page.locator(f".ball {case.ball}").count() == marks
    assert (page.locator(".ball .ball-dot").count() > 0) == ("8-bit" in case.claim)
    if certificate["noise"]["norm"] == "l0":
        assert "pixels" not in opened.text("#answer"), "a pixel may have three values"
    assert opened.overflow() == 0
    case.pictures(canvases(opened))


def test_the_form_offers_the_noises_that_suit_the_ensemble(visit: Open, service: PageService) -> None:
    opened = visit(service.address)
    opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    opened.ask(ensemble="trivial")
    opened.page.click("#more summary")
    kind = opened.page.locator("#noise-kind")
    assert kind.locator("option").all_inner_texts() == [
        "gaussian: l₂",
        "rounded-gaussian: l₂, for 8-bit images",
        "gaussian-linf: l∞",
    ]
    assert kind.input_value() == "rounded-gaussian", "files have 8 bits"
    kind.select_option("gaussian-linf")
    inputs = opened.page.locator("#noise input")
    assert inputs.evaluate_all("all => all.map(({ value }) => value)") == [str(SIGMA), str(VALUES)]
    assert opened.page.locator("[name=radius]").input_value() == "0.004"
    assert opened.text("#radius-unit") == "1.02 of 255 levels"
    assert "float32 taken for real numbers" in opened.text("#noise-note")
    opened.page.wait_for_selector("#plan .feasible")
    assert not opened.page.is_visible("#mismatch")
    opened.ask(ensemble="with-uniform")
    assert not kind.is_visible()
    assert opened.text("#noise-note") == "Standard deviation 0.289."


def test_radii_end_at_the_reach_of_uniform_noise(visit: Open, service: PageService) -> None:
    opened = visit(service.address)
    opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    opened.ask(ensemble="with-uniform", radius="0.5")
    (noise, _) = OTHERS["with-uniform"]
    assert isinstance(noise, Uniform)
    opened.page.wait_for_selector(f"#radius-unit:text-is('below {noise.reach}')")
    opened.page.wait_for_selector("#plan .infeasible :text('Not under this noise.')")
    assert f"No number of samples proves radius {noise.reach} or more." in opened.text("#plan")
    opened.ask(radius="0.49")
    opened.page.wait_for_selector("#plan .feasible")


def test_radii_in_l0_are_whole_numbers_with_a_stepper(visit: Open, service: PageService) -> None:
    opened = visit(service.address)
    opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    opened.ask(ensemble="with-replacement-grey")
    radius = opened.page.locator("[name=radius]")
    assert (radius.get_attribute("type"), radius.input_value()) == ("number", "1")
    assert opened.text("#radius-unit") == "values"
    radius.focus()
    opened.page.keyboard.press("ArrowUp")
    assert radius.input_value() == "2"
    opened.page.wait_for_selector("#plan :text('adius 2 is proved')")
    opened.page.wait_for_selector("#plan dd:text('9 values')")
    opened.ask(radius="1.5")
    opened.page.wait_for_selector("#plan :text('must be a whole number')")
    assert radius.get_attribute("aria-invalid") == "true"
    opened.ask(ensemble="trivial")
    assert (radius.get_attribute("type"), radius.input_value()) == ("text", "0.25")


def test_a_batch_in_l0_has_whole_radii_on_its_axis(visit: Open, service: PageService) -> None:
    opened = visit(service.address)
    opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    opened.ask(ensemble="with-replacement-grey", procedure="fixed", samples="300")
    opened.choose(*[image_for("with-replacement-grey")] * 2)
    opened.certify()
    opened.page.wait_for_selector(".status.succeeded")
    found = service.get(opened.certification)["certificates"]
    assert [each["radius"] for each in found] == [floor_radius(each["radius"] // 1) for each in found] != [0, 0]
    ticks = opened.page.locator(".curve .tick[text-anchor=middle]").all_text_contents()
    assert len(ticks) > 1
    assert all(tick.isdigit() for tick in ticks)
