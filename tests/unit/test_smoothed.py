"""`Smoothed`: certificates of models in memory are those of the service, and bad input is a sentence."""

from __future__ import annotations

import gc
import re
import sys
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import smoothcert
from smoothcert.bounds import lower_bound
from smoothcert.certificate import Certificate
from smoothcert.engine import smoothed as module
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import assemble, network_digest
from smoothcert.engine.errors import (
    DeviceError,
    MemberError,
    NormalisationError,
    PixelsError,
    StreamError,
    VotingError,
)
from smoothcert.engine.outputs import logits_of
from smoothcert.engine.smoothed import Smoothed, SmoothedWarning
from smoothcert.errors import DomainError, SmoothcertError
from smoothcert.extras import MissingExtraError, needed_by
from smoothcert.noise import Gaussian
from smoothcert.procedures import Adaptive, Fixed, Sequential
from smoothcert.question import Question
from smoothcert.verification import verify

NOISE = Gaussian(0.25)
QUICK = Sequential(max_samples=1000)
SHAPE = (3, 4, 4)


class Patches(nn.Module):
    """A small random convolutional network with four classes."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.relu(self.norm(self.conv(x))).flatten(1))  # type: ignore[no-any-return]


def images(count: int) -> list[Tensor]:
    return list(torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(11)))


def patches(seed: int = 0) -> nn.Module:
    return Patches(seed).eval()


@pytest.fixture
def smoothed() -> Iterator[Smoothed]:
    with Smoothed(patches(), NOISE) as made:
        yield made


def noisy(batch: Tensor) -> Tensor:
    return NOISE.perturb(batch.repeat(50, 1, 1, 1), torch.Generator().manual_seed(5))


def noisy_classes(smoothed: Smoothed, batch: Tensor) -> Tensor:
    """The classes of noisy images, always the same ones."""
    return smoothed._ensemble_for(batch).classify(noisy(batch)).classes


def counts(certificate: Certificate) -> list[tuple[int, ...]]:
    return [certificate.selection, *(stage.counts for stage in certificate.stages)]


def loaded(count: int = 10, batch: int = 4) -> DataLoader[Any]:
    data = TensorDataset(torch.stack(images(count)), torch.arange(count) % 4)
    return DataLoader(data, batch_size=batch)


# --- certificates


def test_certificates_are_those_of_the_engine_count_for_count() -> None:
    """A service sends its ensembles through `case.certify`."""
    three, batch = [patches(seed) for seed in range(3)], images(4)
    with Smoothed(three, NOISE, classes=["a", "b", "c", "d"], consensus=2) as smoothed:
        found = smoothed.certify(torch.stack(batch), 0.1, procedure=QUICK, seed="s")
        with Engine(smoothed._ensemble_for(torch.stack(batch))) as engine:
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
    assert [member.digest for member in smoothed._ensemble_for(batch).members] == [m.digest for m in ensemble.members]
    assert torch.equal(noisy_classes(smoothed, batch), ensemble.classify(noisy(batch)).classes)


def test_verify_accepts_them_and_so_does_their_text(smoothed: Smoothed) -> None:
    for certificate in smoothed.certify(torch.stack(images(3)), 0.1, procedure=QUICK):
        assert verify(certificate)
        assert verify(Certificate.from_json(certificate.to_json()))


def test_the_model_is_marked_as_in_memory_and_known_by_its_tensors() -> None:
    network = patches()
    with Smoothed(network, NOISE, mean=0.5, std=0.5) as smoothed:
        (certificate,) = smoothed.certify(images(1)[0], 0.1, procedure=QUICK)
        ensemble = smoothed._ensemble
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


def test_sequential_is_the_default_with_a_radius_and_fixed_without(smoothed: Smoothed) -> None:
    (targeted,) = smoothed.certify(images(1)[0], 0.01)
    assert targeted.procedure == Sequential()
    assert smoothed._question(None, None, alpha=0.001, beta=0.001).procedure == Fixed()


def test_a_procedure_is_named_or_given(smoothed: Smoothed) -> None:
    for procedure in (Adaptive(stages=(100, 1000)), {"name": "adaptive", "stages": [100, 1000]}):
        (found,) = smoothed.certify(images(1)[0], 0.1, procedure=procedure)
        assert found.procedure == Adaptive(stages=(100, 1000))
    (fixed,) = smoothed.certify(images(1)[0], procedure=Fixed(n=500))
    assert fixed.target_radius is None
    top = max(fixed.stages[0].counts)
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
    found = [smoothed.certify(form, 0.1, procedure=QUICK, seed=0) for form in forms]
    inputs = [[each.provenance.input for each in one] for one in found]  # type: ignore[union-attr]
    assert all(one == inputs[0] for one in inputs)
    assert all([counts(each) for each in one] == [counts(each) for each in found[0]] for one in found)


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
    assert smoothed._engine is not None
    smoothed.certify(images(1)[0], 0.1, procedure=QUICK)  # nothing is left in its way


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
    list(smoothed.certify_many(loaded(3), 0.1, procedure=QUICK))  # not a terminal
    assert capsys.readouterr().err == ""


def test_without_rich_there_is_no_bar(smoothed: Smoothed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    assert len(list(smoothed.certify_many(loaded(2), 0.1, procedure=QUICK))) == 2
    with pytest.raises(MissingExtraError, match=re.escape("a progress bar needs rich: pip install 'smoothcert[cli]'")):
        list(smoothed.certify_many(loaded(2), 0.1, procedure=QUICK, progress=True))


# --- predictions and reports


class Constant(nn.Module):
    """Says class 2 of three, whatever it sees."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tensor([0.0, -1.0, 3.0]).expand(len(x), 3) + 0 * x.sum((1, 2, 3)).unsqueeze(1)


class Fair(nn.Module):
    """Says class 0 or 1 by the sign of the noise of one pixel of a grey image."""

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
    assert report.curve[-1] == (0.02, 10 * sum(right))
    assert report.markdown().startswith("# patches\n")
    pair = (torch.stack(images(10)), torch.arange(10) % 4)
    assert smoothed.evaluate(pair, 0.02, procedure=QUICK, seed=0).curve == report.curve


# --- the thread


def engine_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("engine-")]


def test_the_thread_begins_with_the_first_images_and_ends_at_close() -> None:
    before = len(engine_threads())
    smoothed = Smoothed(patches(), NOISE)
    assert len(engine_threads()) == before
    smoothed.predict(images(1)[0], n=10)
    assert len(engine_threads()) == before + 1
    smoothed.close()
    smoothed.close()
    assert len(engine_threads()) == before
    smoothed.predict(images(1)[0], n=10)  # a call after close starts another
    assert len(engine_threads()) == before + 1
    smoothed.close()


def test_an_object_that_is_forgotten_ends_its_thread() -> None:
    before = len(engine_threads())
    smoothed = Smoothed(patches(), NOISE)
    smoothed.predict(images(1)[0], n=10)
    gone = weakref.ref(smoothed)
    del smoothed
    gc.collect()
    assert gone() is None
    assert len(engine_threads()) == before


def test_it_may_be_used_from_several_threads(smoothed: Smoothed) -> None:
    expected = smoothed.predict(images(1)[0], n=100, seed=0)
    found: list[list[int | None]] = []
    threads = [
        threading.Thread(target=lambda: found.append(smoothed.predict(images(1)[0], n=100, seed=0))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


# --- what models return


@dataclass
class Output:
    logits: Tensor
    hidden_states: object = None


class Wrapped(nn.Module):
    """Patches whose logits come inside something else."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.network, self.kind = patches(), kind

    def forward(self, x: Tensor) -> Any:
        logits: Tensor = self.network(x)
        return {
            "object": Output(logits),
            "mapping": {"logits": logits, "loss": None},
            "tuple": (logits, logits + 1),
            "text": "cat",
            "flat": logits.flatten(),
            "one": logits[:, :1],
        }[self.kind]


@pytest.mark.parametrize("kind", ["object", "mapping", "tuple"])
def test_logits_are_unwrapped(kind: str) -> None:
    batch = torch.stack(images(4))
    plain = noisy_classes(Smoothed(patches(), NOISE, mean=0.1, std=2), batch)
    with Smoothed(Wrapped(kind).eval(), NOISE, mean=0.1, std=2) as smoothed:
        assert torch.equal(noisy_classes(smoothed, batch), plain)
        assert verify(smoothed.certify(batch[0], 0.1, procedure=QUICK)[0])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("text", "the model returns str; it must return a tensor [N, classes] of logits"),
        ("flat", "Wrapped returns shape (4,) for 1 images; it must be (1, classes)"),
        ("one", "Wrapped returns one number for each image; a classifier returns a logit for each class"),
    ],
)
def test_an_output_without_logits_is_refused(kind: str, message: str) -> None:
    with pytest.raises(MemberError, match=re.escape(message)):
        Smoothed(Wrapped(kind).eval(), NOISE).certify(images(1)[0], 0.1)


def test_a_tensor_of_logits_is_itself() -> None:
    logits = torch.zeros(2, 3)
    assert logits_of(logits) is logits


@pytest.mark.parametrize(
    ("networks", "effect"),
    [(1, "does not change the classes of a single model"), (2, "soft voting then combines probabilities")],
)
def test_probabilities_are_warned_of_once(networks: int, effect: str) -> None:
    members = [nn.Sequential(patches(seed), nn.Softmax(-1)).eval() for seed in range(networks)]
    with Smoothed(members, NOISE) as smoothed:
        with pytest.warns(SmoothedWarning, match=f"returns probabilities.*{effect}"):
            smoothed.predict(images(1)[0], n=10)
        smoothed.predict(images(1)[0], n=10)  # a second warning would be an error here


def test_hard_votes_may_be_of_probabilities() -> None:
    members = [nn.Sequential(patches(seed), nn.Softmax(-1)).eval() for seed in range(2)]
    with Smoothed(members, NOISE, voting="hard") as smoothed:
        smoothed.predict(images(1)[0], n=10)


# --- bad input


def test_a_model_in_train_mode_is_copied_into_eval_mode() -> None:
    network = patches().train()
    with pytest.warns(SmoothedWarning, match="train mode; Smoothed runs a copy of it in eval mode"):
        smoothed = Smoothed(network, NOISE)
    with smoothed, Smoothed(patches(), NOISE) as other:
        found, expected = (each.certify(images(1)[0], 0.1, procedure=QUICK, seed=0) for each in (smoothed, other))
    assert network.training
    assert [counts(each) for each in found] == [counts(each) for each in expected]


def test_a_model_elsewhere_is_moved_and_the_user_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no second device here, so the model only says that it is on one."""
    network = patches()
    monkeypatch.setattr(module, "_place", lambda _: torch.device("cuda:0"))
    with pytest.warns(SmoothedWarning, match="a model is on cuda:0; Smoothed runs a copy of it on cpu"):
        Smoothed(network, NOISE, device="cpu")
    assert module._same(torch.device("cuda:0"), torch.device("cuda"))
    assert not module._same(torch.device("cuda:0"), torch.device("cuda:1"))


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda:7", "the device 'cuda:7' cannot be used here"),
        ("gpu", "device must be a name such as cpu or cuda:0, got 'gpu'"),
        ("meta", "on the device meta, where tensors have no values"),
    ],
)
def test_a_device_that_cannot_be_used_is_named(device: str, message: str) -> None:
    with pytest.raises(DeviceError, match=re.escape(message)):
        Smoothed(patches(), NOISE, device=device)


def test_a_model_without_values_is_refused() -> None:
    with torch.device("meta"):
        network = nn.Linear(3, 2).eval()
    with pytest.raises(DeviceError, match="load its weights first"):
        Smoothed(network, NOISE)
    with pytest.raises(MemberError, match="Linear cannot be copied to cpu"):
        Smoothed(network, NOISE, device="cpu")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"noise": 0.25}, DomainError, "noise must be a noise such as Gaussian(0.25), got 0.25"),
        ({"models": "resnet"}, MemberError, "a model must be a torch.nn.Module, got str"),
        ({"models": []}, MemberError, "there are no models"),
        ({"consensus": 2}, VotingError, "consensus K = 2 is not in 1..1"),
        ({"consensus": 0}, VotingError, "consensus K = 0 is not in 1..1"),
        ({"voting": "loud"}, VotingError, "'loud'"),
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
    with pytest.raises(MemberError, match="the models tell 4, 3 classes apart"):
        Smoothed([patches(), Constant().eval()], NOISE).predict(images(1)[0])


def imagenet(batch: Tensor) -> Tensor:
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return (batch - mean.view(1, 3, 1, 1)) / std.view(1, 3, 1, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.rand(2, *SHAPE) * 255, "they must lie in [0, 1]: divide them by 255, or pass them as uint8"),
        (imagenet(torch.rand(20, *SHAPE)), "They look normalised with mean (0.485, 0.456, 0.406)"),
        (torch.randn(2, *SHAPE) * 9, "leave the normalisation out of the loader and pass it to Smoothed as mean="),
        (torch.rand(4, 4), "images must have the shape [N, C, H, W] or [C, H, W], got (4, 4)"),
        (torch.rand(0, *SHAPE), "there are no images"),
        ([], "there are no images"),
        ([torch.rand(3, 4, 4), torch.rand(3, 4, 5)], "the images have different shapes: (3, 4, 4), (3, 4, 5)"),
        ("ship.png", "images must be tensors or numpy arrays in the order C, H, W, got builtins.str"),
        (torch.full(SHAPE, torch.nan), "not finite"),
        (torch.zeros(SHAPE, dtype=torch.int64), "dtype torch.int64"),
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


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"radius": 9}, "radius 9 is beyond the largest provable one, 0.969465; no number of samples would be enough"),
        ({"radius": 1}, "radius 1 is beyond the largest provable one, 0.969465; it would take a last stage of"),
        ({"radius": -1}, "radius must be zero or more and finite, got -1"),
        (
            {"radius": 0.1, "procedure": "fixed"},
            "the fixed procedure proves the largest radius it can: leave the radius",
        ),
        ({"procedure": "sequential"}, "the sequential procedure needs a target radius"),
        ({"radius": 0.1, "procedure": "lucky"}, "'sequential', 'largest', got 'lucky'"),
        ({"radius": 0.1, "procedure": {"name": "sequential", "max_samples": 0}}, "max_samples"),
        ({"radius": 0.1, "alpha": 2}, "alpha must lie strictly between 0 and 1, got 2"),
    ],
)
def test_questions_without_an_answer_are_sentences(smoothed: Smoothed, question: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=re.escape(message)):
        smoothed.certify(images(1)[0], **question)
    with pytest.raises(DomainError, match=re.escape(message)):
        smoothed.certify_many(images(1), **question)  # before the first certificate is taken


def test_a_seed_must_be_text(smoothed: Smoothed) -> None:
    with pytest.raises(StreamError, match="a seed must be 1 to 256 printable ASCII characters"):
        smoothed.certify(images(1)[0], 0.1, procedure=QUICK, seed="")


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        ([{"pixel_values": 1, "label": 2}], "it yields dict with the keys 'pixel_values', 'label': use ((batch[key]"),
        (["a.png"], "it yields str"),
        ([(torch.rand(1, *SHAPE), [0], "a.png")], "it yields tuple of Tensor, list, str"),
        ([torch.rand(1, *SHAPE)], "it yields a Tensor without labels"),
        (7, "images must come from a loader or another iterable, got int"),
        ([], "the loader yields no images; a generator that was read before is empty"),
        ([(torch.rand(2, *SHAPE), [0])], "there are 1 labels for 2 images"),
        ([(torch.rand(2, *SHAPE), [0, 4])], "a label must be a class index from 0 to 3, got 4"),
        ([(torch.rand(2, *SHAPE), torch.eye(4)[:2])], "a label must be a class index from 0 to 3, got [1.0, 0.0"),
        ([(torch.rand(2, *SHAPE), ["cat", "dog"])], "a label must be a class index from 0 to 3, got 'cat'"),
        ([(torch.rand(1, *SHAPE), None)], "labels must be a sequence of class indices, got NoneType"),
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


def test_a_network_that_mixes_images_is_refused() -> None:
    class Mixing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            values = x.flatten(1)[:, :3]
            return values - values.mean(0)

    with pytest.raises(MemberError, match="Mixing gives an image other logits beside other images"):
        Smoothed(Mixing().eval(), NOISE).predict(images(1)[0])


# --- public names


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportError, match=re.escape("x needs torch: pip install 'smoothcert[torch]'")), needed_by("x"):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    for name in ("unheard", "torch.nn.missing", None):
        with pytest.raises(ModuleNotFoundError), needed_by("x"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_the_public_names_are_the_classes_themselves() -> None:
    assert smoothcert.Smoothed is Smoothed
    assert smoothcert.Gaussian is Gaussian
    assert smoothcert.verify is verify
    assert repr(Smoothed(patches(), NOISE)).startswith("Smoothed([Patches], Gaussian(sigma=0.25")
