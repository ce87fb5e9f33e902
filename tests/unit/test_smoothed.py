"""Certificates of `Smoothed`, for models in memory, are those of the service."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from smoothcert.bounds import lower_bound
from smoothcert.certificate import Certificate
from smoothcert.engine import smoothed as module
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import assemble
from smoothcert.engine.identity import network_digest
from smoothcert.engine.keywords import question_of
from smoothcert.engine.smoothed import Smoothed
from smoothcert.errors import DomainError
from smoothcert.extras import MissingExtraError
from smoothcert.noise import RoundedGaussian, Splitting
from smoothcert.procedures import Adaptive, Fixed, Optimal
from smoothcert.question import Question
from smoothcert.verification import verify
from tests.support.smoothed import NOISE, QUICK, SHAPE, Constant, counts, images, loaded, noisy, noisy_classes, patches


def test_certificates_are_those_of_the_engine_count_for_count() -> None:
    """A service also sends its ensembles through `case.certify`."""
    three, batch = [patches(seed) for seed in range(3)], images(4)
    with Smoothed(three, NOISE, classes=["a", "b", "c", "d"], consensus=2) as smoothed:
        found = smoothed.certify(torch.stack(batch), 0.1, procedure=QUICK, seed="s")
        with Engine(smoothed._session.ensemble(torch.stack(batch))) as engine:
            expected = certify(engine, batch, Question(NOISE, QUICK, 0.1), seed="s")
    for one, other in zip(found, expected, strict=True):
        assert one.model_dump(exclude={"provenance", "digest"}) == other.model_dump(exclude={"provenance", "digest"})
        assert one.provenance is not None
        times = {"started_at", "finished_at"}
        assert one.provenance.model_dump(exclude=times) == other.provenance.model_dump(exclude=times)  # type: ignore[union-attr]


def test_the_members_are_those_of_an_assembled_ensemble() -> None:
    three, batch = [patches(seed) for seed in range(3)], torch.stack(images(8))
    ensemble = assemble(three, classes=("a", "b", "c", "d"), input_shape=SHAPE, consensus=2)
    smoothed = Smoothed(three, NOISE, consensus=2)
    assert [member.digest for member in smoothed._session.ensemble(batch).members] == [
        m.digest for m in ensemble.members
    ]
    assert torch.equal(noisy_classes(smoothed, batch), ensemble.classify(noisy(batch)).classes)


def test_verify_accepts_them_and_so_does_their_text(smoothed: Smoothed) -> None:
    for certificate in smoothed.certify(torch.stack(images(3)), 0.1, procedure=QUICK):
        assert verify(certificate)
        assert verify(Certificate.from_json(certificate.to_json()))


def test_the_model_is_marked_as_in_memory_and_known_by_its_tensors() -> None:
    network = patches()
    with Smoothed(network, NOISE, mean=0.5, std=0.5) as smoothed:
        (certificate,) = smoothed.certify(images(1)[0], 0.1, procedure=QUICK)
        ensemble = smoothed._session._ensemble
    assert certificate.provenance is not None
    assert certificate.provenance.ensemble.name == "in-memory"
    assert certificate.provenance.ensemble.members == (network_digest(network),)
    assert ensemble is not None
    identity = ensemble.members[0].identity
    assert identity.architecture == "in-memory:Patches"
    assert identity.normalisation is not None
    assert identity.normalisation.mean == (0.5, 0.5, 0.5)
    with Smoothed(network, NOISE) as plain:
        (other,) = plain.certify(images(1)[0], 0.1, procedure=QUICK)
    assert other.provenance is not None
    assert other.provenance.ensemble.digest != certificate.provenance.ensemble.digest  # the normalisation counts


def test_optimal_is_the_default_with_a_radius_and_fixed_without(smoothed: Smoothed) -> None:
    (targeted,) = smoothed.certify(images(1)[0], 0.01)
    assert targeted.procedure == Optimal()
    assert verify(targeted)
    assert question_of(NOISE, None, {}).procedure == Fixed()


def test_a_procedure_is_named_or_given(smoothed: Smoothed) -> None:
    for procedure in (Adaptive(stages=(100, 1000)), {"name": "adaptive", "stages": [100, 1000]}):
        (found,) = smoothed.certify(images(1)[0], 0.1, procedure=procedure)
        assert found.procedure == Adaptive(stages=(100, 1000))
    (fixed,) = smoothed.certify(images(1)[0], procedure=Fixed(n=500))
    assert fixed.target_radius is None
    top = max(fixed.stages[0].counts.values())
    if fixed.decision == "certified":
        assert fixed.p_lower == lower_bound(top, 500, 0.001)


def test_a_seed_repeats_a_run_and_another_does_not(smoothed: Smoothed) -> None:
    image = images(1)[0]
    runs = [smoothed.certify(image, procedure=Fixed(n=2000), seed=seed)[0] for seed in (1, "1", 2)]
    assert counts(runs[0]) == counts(runs[1]) != counts(runs[2])
    drawn = {smoothed.certify(image, 0.1, procedure=QUICK)[0].provenance.sampling.seed for _ in range(2)}  # type: ignore[union-attr]
    assert len(drawn) == 2


def test_class_names_are_optional() -> None:
    image = images(1)[0]
    for classes, expected in ((None, None), (4, None), (["a", "b", "c", "d"], "abcd")):
        with Smoothed(patches(), NOISE, classes=classes) as smoothed:
            (found,) = smoothed.certify(image, procedure=Fixed(n=5000), seed=0)
        assert found.class_index is not None
        assert found.class_name == (expected and expected[found.class_index])
        assert verify(found)


def test_alpha_is_shared_among_the_images_if_asked(smoothed: Smoothed) -> None:
    found = smoothed.certify(torch.stack(images(5)), 0.1, procedure=QUICK, alpha=0.005, family_wise=True)
    assert {each.alpha for each in found} == {0.001}
    assert all(each.family_wise and each.family_wise.images == 5 and verify(each) for each in found)


def test_uint8_pixels_and_arrays_and_lists_are_the_same_images(smoothed: Smoothed) -> None:
    pixels = (torch.rand(2, *SHAPE, generator=torch.Generator().manual_seed(1)) * 255).to(torch.uint8)
    forms: list[Any] = [pixels, pixels.numpy(), list(pixels), pixels / 255, (pixels / 255).numpy()]
    forms.insert(1, np.broadcast_to(pixels.numpy(), pixels.shape))  # may not be written, and torch must not warn of it
    forms.append((pixels / 255).numpy().astype(">f4"))  # FITS and IDX files hold their numbers in this form
    found = [smoothed.certify(form, 0.1, procedure=QUICK, seed=0) for form in forms]
    inputs = [[each.provenance.input for each in one] for one in found]  # type: ignore[union-attr]
    assert all(one == inputs[0] for one in inputs)
    drawn = [[counts(each) for each in one] for one in found]
    assert all(one == drawn[0] for one in drawn[:4])
    assert all(one == drawn[4] for one in drawn[4:])  # floats get other noise than bytes


def test_normalisation_comes_after_the_noise() -> None:
    """A network behind its own normalisation gives the same counts as mean and std. Mutant killed: std left out."""

    class Behind(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = patches()

        def forward(self, x: Tensor) -> Tensor:
            return self.network((x - 0.4) / 0.2)  # type: ignore[no-any-return]

    batch = torch.stack(images(4))
    by_hand = noisy_classes(Smoothed(Behind().eval(), NOISE), batch)
    assert torch.equal(noisy_classes(Smoothed(patches(), NOISE, mean=0.4, std=[0.2, 0.2, 0.2]), batch), by_hand)
    assert not torch.equal(noisy_classes(Smoothed(patches(), NOISE), batch), by_hand)


def test_training_the_model_further_changes_nothing() -> None:
    network = patches()
    with Smoothed(network, NOISE) as smoothed:
        before = smoothed.certify(images(1)[0], 0.1, procedure=QUICK, seed=0)
        with torch.no_grad():
            network.fc.weight.zero_()  # type: ignore[union-attr, operator]
        after = smoothed.certify(images(1)[0], 0.1, procedure=QUICK, seed=0)
    assert [counts(each) for each in before] == [counts(each) for each in after]


# --- many images


def test_many_images_are_certified_as_a_few_are(smoothed: Smoothed) -> None:
    few = smoothed.certify(torch.stack(images(10)), 0.1, procedure=QUICK, seed=0)
    sources: list[Any] = [loaded(), images(10), (image.numpy() for image in images(10)), torch.stack(images(10))]
    for source in sources:
        many = list(smoothed.certify_many(source, 0.1, procedure=QUICK, seed=0))
        assert [each.index for each in many] == list(range(10))
        assert [counts(each) for each in many] == [counts(each) for each in few]


def test_the_loader_is_read_as_certificates_are_taken(smoothed: Smoothed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 5)
    read = 0

    def endless() -> Iterator[Tensor]:
        nonlocal read
        while True:
            read += 1
            yield images(1)[0]

    certificates = smoothed.certify_many(endless(), 0.1, procedure=QUICK)
    assert read == 0
    for taken in range(1, 9):
        next(certificates)
        assert read <= taken + 5
    certificates.close()
    assert smoothed._session._engine is not None
    smoothed.certify(images(1)[0], 0.1, procedure=QUICK)  # nothing blocks the next call


def test_an_error_of_the_loader_reaches_the_caller(smoothed: Smoothed) -> None:
    def broken() -> Iterator[Tensor]:
        yield images(1)[0]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(smoothed.certify_many(broken(), 0.1, procedure=QUICK))


def test_a_bar_shows_the_progress_where_it_is_wanted(smoothed: Smoothed, capsys: pytest.CaptureFixture[str]) -> None:
    found = list(smoothed.certify_many(loaded(3), 0.1, procedure=QUICK, progress=True))
    err = capsys.readouterr().err
    assert "3/3" in err
    assert f"{sum(each.samples for each in found):,} samples" in err
    list(smoothed.certify_many(loaded(3), 0.1, procedure=QUICK))  # this is not a terminal
    assert capsys.readouterr().err == ""


def test_without_rich_there_is_no_bar(smoothed: Smoothed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    assert len(list(smoothed.certify_many(loaded(2), 0.1, procedure=QUICK))) == 2
    with pytest.raises(
        MissingExtraError, match=re.escape("a progress bar needs rich: pip install '.[cli]' in a clone of smoothcert")
    ):
        list(smoothed.certify_many(loaded(2), 0.1, procedure=QUICK, progress=True))


# --- predictions and reports


class Fair(nn.Module):
    """A network whose class, 0 or 1, is the sign of the noise of one pixel of a grey image."""

    def forward(self, x: Tensor) -> Tensor:
        sign = x[:, 0, 0, 0] - 0.5
        return torch.stack([sign, -sign], dim=1)


def test_predictions_are_classes_or_none() -> None:
    grey = torch.full((3, 1, 4, 4), 0.5)
    with Smoothed(Constant().eval(), NOISE) as smoothed:
        assert smoothed.predict(grey, n=100) == [2, 2, 2]
        assert smoothed.predict(grey[0], n=5) == [None]  # five heads in a row are not significant at 0.001
    with Smoothed(Fair().eval(), NOISE) as smoothed:
        assert smoothed.predict(grey, n=100, seed=0) == [None, None, None]


def test_a_report_judges_the_certificates(smoothed: Smoothed) -> None:
    certificates = smoothed.certify(torch.stack(images(10)), 0.02, procedure=QUICK, seed=0)
    report = smoothed.evaluate(loaded(), 0.02, procedure=QUICK, seed=0, name="patches")
    right = [c.class_index == i % 4 for i, c in enumerate(certificates)]
    assert report.figures["images"] == 10
    assert report.figures["certified for the right class"] == sum(right)
    assert report.figures["ACR"] == pytest.approx(0.02 * sum(right) / 10)
    radius, accuracy = report.curve[-1]
    assert (radius, accuracy.value) == (0.02, 10 * sum(right))
    assert report.markdown().startswith("# patches\n")
    pair = (torch.stack(images(10)), torch.arange(10) % 4)
    assert smoothed.evaluate(pair, 0.02, procedure=QUICK, seed=0).curve == report.curve


def test_a_curve_comes_from_one_run(smoothed: Smoothed) -> None:
    radii = (0.005, 0.02, 0.04)
    named = {"name": "optimal", "radii": radii, "max_samples": 2_000}
    report = smoothed.evaluate(loaded(), radii=radii, procedure={"name": "optimal", "max_samples": 2_000}, seed=0)
    certificates = smoothed.certify(torch.stack(images(10)), procedure=named, seed=0)
    assert [each.radius for each in certificates] == [each.certificate.radius for each in report.judged]
    assert len({each.radius for each in certificates}) > 1
    right = [each.radius if each.class_index == i % 4 else 0.0 for i, each in enumerate(certificates)]
    assert [(radius, accuracy.value) for radius, accuracy in report.curve] == [
        (radius, 10 * sum(each >= radius for each in right)) for radius in radii
    ]
    assert report.first.alpha == 0.001, "alpha is not divided"


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"radius": 0.02}, "name the radius among the radii"),
        ({"procedure": "fixed"}, "radii belong to the optimal procedure, got fixed"),
        ({"procedure": {"name": "optimal", "radii": [0.1]}}, "radii are given twice"),
        ({"radii": (0.2, 0.1)}, "radii must increase by at least"),
        ({"radii": 0.1}, r"radii must be a list of numbers, got 0\.1"),
        ({"radii": ["far"]}, r"radii must be a list of numbers, got \['far'\]"),
        ({"radii": ()}, "radii must be from 1 to 32 numbers, got 0 of them"),
        ({"procedure": {"name": "optimal", "price": 1}}, r"a certificate of radius 0\.\d+ is not worth its samples"),
        ({"radii": (0.25, 5)}, r"radius 5 is beyond the largest provable one, 0\.\d+; it needs a p_A so close to 1"),
        ({"radii": (0.02, 0.9), "procedure": {"name": "optimal", "max_samples": 100}}, r"radius 0\.9 is beyond"),
    ],
)
def test_radii_that_cannot_be_asked_for_are_refused(smoothed: Smoothed, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        smoothed.evaluate(loaded(), **{"radii": (0.01, 0.02), **keywords})


@pytest.mark.parametrize("labels", [torch.zeros(10, dtype=torch.long), np.zeros(10, int), [0] * 10])
def test_labels_that_are_given_apart_from_the_images_are_told_their_place(smoothed: Smoothed, labels: Any) -> None:
    message = r"images and labels go in one pair: evaluate\(\(images, labels\), radius=\.\.\.\)"
    evaluate: Any = smoothed.evaluate
    with pytest.raises(TypeError, match=message):
        evaluate(torch.stack(images(10)), labels, radius=0.5)
    with pytest.raises(TypeError, match=message):
        evaluate(torch.stack(images(10)), labels)
    with pytest.raises(TypeError, match=message):
        evaluate(torch.stack(images(10)), labels=labels)


def test_labels_may_be_names_of_classes() -> None:
    grey = torch.full((3, 1, 4, 4), 0.5)
    with Smoothed(Constant().eval(), NOISE, classes=["cat", "dog", "horse"]) as smoothed:
        report = smoothed.evaluate((grey, ["horse", 2, "dog"]), 0.02, procedure=QUICK)
        assert report.figures["certified for the right class"] == 2
        with pytest.raises(DomainError, match=r"the label 'hrose' is not one of .* did you mean horse\?"):
            smoothed.evaluate((grey, ["horse", "hrose", "dog"]), 0.02, procedure=QUICK)


def test_bytes_get_exact_noise_and_floats_do_not(smoothed: Smoothed) -> None:
    image = torch.full((1, *SHAPE), 200, dtype=torch.uint8)
    certificates = [
        *smoothed.certify(image, procedure=Fixed(n=50)),
        *smoothed.certify(image / 255, procedure=Fixed(n=50)),
    ]
    assert [each.noise for each in certificates] == [RoundedGaussian(NOISE.sigma), NOISE]


def test_what_is_certified_is_what_is_predicted() -> None:
    """This holds for bytes, too: a network that asks whether its values are k/255 tells the two noises apart."""

    class OnGrid(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            on = ((x * 255 - (x * 255).round()).abs() < 1e-3).flatten(1).float().mean(1, keepdim=True) - 0.5
            return torch.cat([on, -on], 1)

    image = torch.full(SHAPE, 128, dtype=torch.uint8)
    with Smoothed(OnGrid().eval(), NOISE) as smoothed:
        (certificate,) = smoothed.certify(image, procedure=Fixed(n=200))
        assert smoothed.predict(image, n=200) == [certificate.class_index] == [0]


def test_a_noise_with_few_outcomes_is_evaluated_exactly() -> None:
    with Smoothed(patches(), Splitting(0.1)) as smoothed:
        (certificate,) = smoothed.certify(torch.full(SHAPE, 200, dtype=torch.uint8))
    assert (certificate.procedure.name, certificate.samples, certificate.alpha) == ("exact", 51, None)
    assert verify(certificate)
