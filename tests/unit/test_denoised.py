"""Denoisers in front of a classifier: in memory with `Smoothed`, and as an ensemble on disk."""

from __future__ import annotations

import copy
import hashlib
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.addition import Addition, add
from models.architectures import ARCHITECTURES, DENOISERS
from models.commands.show import _line
from models.description import FILE, parse, write
from models.dncnn import DnCNN
from models.errors import ArchitectureError, DescriptionError, FileError, ModelError
from models.registry import describe, load
from models.training.checkpoint import write_safetensors
from models.training.frozen import FrozenClassifier
from smoothcert.engine.denoised import Denoised, Shared, chained
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import EngineError, MemberError
from smoothcert.engine.identity import Identity
from smoothcert.engine.normalisation import Normalisation
from smoothcert.engine.smoothed import Smoothed
from smoothcert.verification import verify
from tests.support.programs import scripted
from tests.support.smoothed import NOISE, QUICK, images, noisy, noisy_classes, patches
from workers.holdings import card


class Shift(nn.Module):
    """A denoiser that only shifts the values of pixels."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.tensor(by))
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.by


class Tiny(nn.Module):
    """A classifier of two classes with a batch norm to fold."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(torch.relu(self.bn(self.conv(x))).mean((2, 3)))
        return logits


def randomised(network: nn.Module, seed: int) -> nn.Module:
    """The network with weights and statistics that make a difference."""
    generator = torch.Generator().manual_seed(seed)
    for tensor in network.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.1)
    return network.eval()


# --- in memory


def test_the_denoiser_comes_before_the_normalisation() -> None:
    batch = torch.stack(images(4))
    denoiser, model = Shift(0.3), patches()
    expected = model(((noisy(batch) + 0.3) - 0.1) / 2).argmax(1)
    with Smoothed(model, NOISE, denoiser=denoiser, mean=0.1, std=2.0) as smoothed:
        assert torch.equal(noisy_classes(smoothed, batch), expected)
        (certificate,) = smoothed.certify(batch[0], 0.1, procedure=QUICK)
        assert verify(certificate)
        (member,) = smoothed._session.ensemble(batch).members
    assert member.identity.architecture == "in-memory:Shift > in-memory:Patches"
    assert member.identity.normalisation is None
    assert not torch.equal(noisy_classes(Smoothed(model, NOISE, mean=0.1, std=2.0), batch), expected)


def addresses(module: nn.Module) -> set[int]:
    return {tensor.data_ptr() for tensor in (*module.parameters(), *module.buffers())}


def test_denoisers_share_one_classifier() -> None:
    """The plain network and its folded form exist once, however many denoisers precede them."""
    batch = torch.stack(images(4))
    denoisers = [randomised(DnCNN(3, 4), seed) for seed in range(3)]
    with Smoothed(randomised(Tiny(3), 9), NOISE, denoiser=denoisers) as smoothed:
        ensemble = smoothed._session.ensemble(batch)
    assert len({member.digest for member in ensemble.members}) == 3
    assert {member.form.kind for member in ensemble.members} == {"folded"}
    shared = [addresses(member.form.network[1]) for member in ensemble.members]
    assert shared[0] == shared[1] == shared[2]
    assert not any(isinstance(module, nn.BatchNorm2d) for module in ensemble.members[0].form.network.modules())
    own = [addresses(member.form.network[0]) for member in ensemble.members]
    assert not own[0] & own[1]
    plain = [addresses(member.network.classifier) for member in ensemble.members]
    assert plain[0] == plain[1] == plain[2]


def test_models_take_one_denoiser_or_one_each() -> None:
    batch = torch.stack(images(4))
    models, denoisers = [patches(0), patches(1)], [Shift(0.1), Shift(0.2)]
    for given, expected in (
        (denoisers[0], [models[0](noisy(batch) + 0.1), models[1](noisy(batch) + 0.1)]),
        (denoisers, [models[0](noisy(batch) + 0.1), models[1](noisy(batch) + 0.2)]),
    ):
        smoothed = Smoothed(models, NOISE, denoiser=given)
        seen = smoothed._session.ensemble(batch).logits(noisy(batch))
        assert torch.allclose(seen, torch.stack(expected), atol=1e-5)
    assert repr(smoothed).startswith("Smoothed([Shift > Patches, Shift > Patches], ")


def test_a_denoiser_may_write_over_its_input() -> None:
    class Writing(Shift):
        def forward(self, x: Tensor) -> Tensor:
            return x.add_(self.by)

    batch = torch.stack(images(4))
    before = batch.clone()
    denoisers, plain = [Writing(0.1), Writing(0.2)], [Shift(0.1), Shift(0.2)]
    with torch.no_grad():
        seen = [noisy_classes(Smoothed(patches(), NOISE, denoiser=given), batch) for given in (denoisers, plain)]
    assert torch.equal(*seen)
    assert torch.equal(batch, before)


def test_a_copy_and_a_pickle_certify_alike() -> None:
    batch = torch.stack(images(2))
    smoothed = Smoothed(patches(), NOISE, denoiser=Shift(0.1))
    expected = noisy_classes(smoothed, batch)
    for other in (copy.deepcopy(smoothed), pickle.loads(pickle.dumps(smoothed))):
        assert torch.equal(noisy_classes(other, batch), expected)


class Halved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, ::2, ::2]


class Wordy(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return {"sample": x}


class Classes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x > 0.5).long()


class Drawing(nn.Module):
    """A network that draws its own noise in eval mode, so no certificate could be replayed."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x)


class Greedy(nn.Module):
    """A network whose answer depends on the other images of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


@pytest.mark.parametrize(
    ("denoiser", "message"),
    [
        (Halved(), r"denoiser Halved makes torch.float32 of shape \(4, 3, \d+, \d+\) from images of shape .* keep the"),
        (Wordy(), "denoiser Wordy returns a dict, not a tensor of images"),
        (Classes(), "denoiser Classes makes torch.int64 of shape"),
        (nn.Conv2d(1, 1, 1), "denoiser Conv2d cannot take images of shape"),
        (Drawing(), "gives an image different logits when other images are beside it, or on a second call"),
        (Greedy(), "gives an image different logits when other images are beside it, or on a second call"),
    ],
)
def test_what_is_not_a_denoiser_is_refused(denoiser: nn.Module, message: str) -> None:
    with pytest.raises(MemberError, match=message):
        Smoothed(patches(), NOISE, denoiser=denoiser.eval()).certify(torch.stack(images(4)), 0.1)


def test_denoisers_that_do_not_go_with_the_models_are_refused_at_once() -> None:
    with pytest.raises(MemberError, match="there are 3 denoisers and 2 models: give one of either, or one denoiser"):
        Smoothed([patches(0), patches(1)], NOISE, denoiser=[Shift(0.1), Shift(0.2), Shift(0.3)])
    with pytest.raises(MemberError, match=r"a denoiser must be a torch.nn.Module, got str"):
        Smoothed(patches(), NOISE, denoiser="dncnn")  # type: ignore[arg-type]
    with pytest.raises(MemberError, match="there are no denoisers: the list is empty"):
        Smoothed(patches(), NOISE, denoiser=[])
    with pytest.raises(EngineError, match=r"consensus must be from 1 to 2, the number of members, got 3"):
        Smoothed(patches(), NOISE, denoiser=[Shift(0.1), Shift(0.2)], consensus=3)


def test_the_digest_of_a_chain_is_that_of_its_stages() -> None:
    normalisation = Normalisation((0.5,), (0.25,))
    chain = chained(Identity("d", "aa"), Identity("c", "bb", normalisation))
    text = (
        '{"format":1,"stages":[{"architecture":"d","normalisation":null,"sha256":"aa"},'
        '{"architecture":"c","normalisation":{"mean":[0.5],"std":[0.25]},"sha256":"bb"}]}'
    )
    assert chain == Identity("d > c", hashlib.sha256(text.encode()).hexdigest())


def test_each_stage_of_a_chain_has_its_own_form() -> None:
    """There is one form for each precision, and a copy of a chain makes its own."""
    classifier = Shared(randomised(Tiny(2), 1))
    chains = [Denoised(randomised(DnCNN(3, 4, shrink=2), seed), classifier).eval() for seed in range(2)]
    x = torch.rand(2, 3, 8, 8)
    for dtype, close in ((torch.float32, 1e-4), (torch.bfloat16, 0.05)):
        forms = [chain.optimised(torch.device("cpu"), dtype) for chain in chains]
        assert [kind for _, kind in forms] == ["folded", "folded"]
        assert torch.allclose(forms[0][0](x.to(dtype)).float(), chains[0](x), rtol=close)
        assert forms[0][0][1] is forms[1][0][1]
        assert copy.deepcopy(chains[0]).optimised(torch.device("cpu"), dtype)[0][1] is not forms[0][0][1]


# --- on disk


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two denoisers of different architectures, and a classifier."""
    monkeypatch.setitem(ARCHITECTURES, "tiny", lambda classes, normalisation: Tiny(classes))
    monkeypatch.setitem(DENOISERS, "wide", lambda channels: DnCNN(3, 6, channels))
    monkeypatch.setitem(DENOISERS, "narrow", lambda channels: DnCNN(3, 4, channels, shrink=2))
    made = []
    for name, network, record in (
        ("wide", DENOISERS["wide"](3), {"architecture": "wide", "sigma": 0.25, "method": "denoiser-mse", "seed": 0}),
        ("narrow", DENOISERS["narrow"](3), {"architecture": "narrow", "sigma": 0.25, "method": "denoiser-stability"}),
        ("clean", Tiny(2), {"architecture": "tiny", "sigma": 0.0, "method": "gaussian"}),
    ):
        made.append(tmp_path / f"{name}.safetensors")
        write_safetensors(made[-1], randomised(network, len(made)).state_dict(), record)
    return made


def added(files: list[Path], zoo: Path, **properties: Any) -> Ensemble:
    own = {"classes": ("cat", "dog"), "input_shape": (3, 8, 8), "classifier": files[-1], **properties}
    return add("denoised", files[:-1], Addition(**own), zoo=zoo)


def test_denoisers_and_their_classifier_make_an_ensemble(files: list[Path], tmp_path: Path) -> None:
    ensemble = added(files, tmp_path / "zoo")
    described = describe("denoised", zoo=tmp_path / "zoo")
    assert described.method == "denoised"
    assert described.noise.label == NOISE.label.replace(str(getattr(NOISE, "sigma", "")), "0.25")
    assert [member.identity.architecture for member in ensemble.members] == ["wide > tiny", "narrow > tiny"]
    assert ensemble.digest == described.digest
    assert "2 members, wide > tiny, narrow > tiny, 2 classes" in _line(described)
    assert parse(write(described)) == described
    assert card(ensemble).architectures == ("wide > tiny", "narrow > tiny")
    assert card(ensemble).members == tuple(described.identity(member).digest for member in described.members)
    assert described.classifier is not None
    assert described.classifier.training["sigma"] == 0
    x = torch.rand(5, 3, 8, 8)
    loaded = load("denoised", zoo=tmp_path / "zoo")
    denoisers = [randomised(DENOISERS[name](3), place + 1).eval() for place, name in enumerate(("wide", "narrow"))]
    classifier = randomised(Tiny(2), 3).eval()
    expected = torch.stack([classifier(denoiser(x)) for denoiser in denoisers])
    assert torch.allclose(loaded.logits(x), expected, rtol=1e-3)
    shared = [addresses(member.form.network[1]) for member in loaded.members]
    assert shared[0] == shared[1]


def test_another_classifier_makes_other_members(files: list[Path], tmp_path: Path) -> None:
    one = added(files, tmp_path / "one")
    write_safetensors(files[-1], randomised(Tiny(2), 77).state_dict(), {"architecture": "tiny"})
    other = added(files, tmp_path / "other")
    normalised = added(files, tmp_path / "third", normalisation=Normalisation((0.5,) * 3, (0.5,) * 3))
    digests = [member.digest for ensemble in (one, other, normalised) for member in ensemble.members]
    assert len(set(digests)) == 6


def test_members_are_ranked_by_the_digest_of_both(files: list[Path], tmp_path: Path) -> None:
    from models.description import Ranking

    added(files, tmp_path)
    described = describe("denoised", zoo=tmp_path)
    first, second = (described.identity(member).digest for member in described.members)
    ranking = Ranking("x", "y", "1::20", 3, 2, described.noise, 0, {first: 0.25, second: 0.5})
    ranked = described.ranked(ranking, {first: 1.0, second: 2.0})
    assert [member.file for member in ranked.members] == ["narrow.safetensors", "wide.safetensors"]
    assert parse(write(ranked)) == ranked
    assert ranked.digest != described.digest


def test_a_classifier_that_was_tampered_with_is_refused(files: list[Path], tmp_path: Path) -> None:
    added(files, tmp_path / "zoo")
    path = tmp_path / "zoo" / "denoised" / "clean.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    for read in (load, describe):
        with pytest.raises(FileError, match=r"clean.safetensors: sha256 is"):
            read("denoised", zoo=tmp_path / "zoo")


def test_what_does_not_make_a_denoised_ensemble_is_named(files: list[Path], tmp_path: Path) -> None:
    wide, narrow, clean = files
    three, bare, text = tmp_path / "three.safetensors", tmp_path / "bare.safetensors", tmp_path / "notes.txt"
    write_safetensors(three, Tiny(3).state_dict(), {"architecture": "tiny"})
    write_safetensors(bare, DENOISERS["wide"](3).state_dict(), {})
    text.write_text("no weights")

    def refusal(*given: Path, **properties: Any) -> str:
        with pytest.raises((ModelError, EngineError)) as error:
            added(list(given), tmp_path / "zoo", **properties)
        assert not (tmp_path / "zoo" / "denoised").exists()
        return str(error.value)

    assert refusal(wide, three) == f"{three}: the network has 3 outputs, and there are 2 class names"
    assert refusal(wide, tmp_path / "missing.pt") == f"{tmp_path / 'missing.pt'}: missing, or not a file"
    assert refusal(wide, text).startswith(f"{text}: neither .safetensors, a state dict")
    assert "bare.safetensors has no training record" in refusal(bare, clean, sigma=0.25)
    assert refusal(bare, clean, sigma=0.25, denoiser="narrow").startswith(f"{bare}: the weights do not fit")
    assert "the architecture of a denoiser must be one of " in refusal(bare, clean, sigma=0.25, denoiser="tiny")
    seen = refusal(narrow, clean, input_shape=(3, 9, 9))
    assert seen.startswith(f"{narrow}: denoiser narrow.safetensors cannot take images of shape (2, 3, 9, 9): ")
    assert refusal(wide, clean, input_shape=(1, 8, 8)).startswith(f"{clean}: classifier clean.safetensors cannot take")
    assert "name it by --classifier" in refusal(wide, clean, classifier=None, denoiser="wide", architecture="tiny")
    assert "the members were trained without noise" in refusal(clean, wide, architecture="tiny")


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (("[denoiser]", "[other]"), "unknown keys: other"),
        (('[denoiser]\narchitecture = "wide"\n', ""), "denoiser is missing: the tables classifier and denoiser go"),
        (("[classifier]", "[classifier]\nvoting = 1"), "unknown keys: classifier.voting"),
        (("[denoiser]", "[denoiser]\nsigma = 1"), "unknown keys: denoiser.sigma"),
        (
            ("[[members]]", "[[members]]\nnormalisation = { mean = [0.5, 0.5, 0.5], std = [1, 1, 1] }"),
            "wide.safetensors has one: the normalisation belongs to the classifier",
        ),
    ],
)
def test_a_description_that_is_not_consistent_is_refused(
    files: list[Path], tmp_path: Path, change: tuple[str, str], seen: str
) -> None:
    added(files, tmp_path)
    text = (tmp_path / "denoised" / FILE).read_text()
    assert change[0] in text
    with pytest.raises(DescriptionError, match=seen):
        parse(text.replace(*change, 1))


def test_programs_may_stand_behind_a_denoiser(files: list[Path], tmp_path: Path) -> None:
    """A TorchScript file is the classifier; the denoisers are files of weights."""
    script = tmp_path / "clean.pt"
    script.write_bytes(scripted(randomised(Tiny(2), 3), (3, 8, 8)))
    ensemble = added([*files[:-1], script], tmp_path / "zoo")
    assert [member.identity.architecture for member in ensemble.members] == [
        "wide > torchscript",
        "narrow > torchscript",
    ]
    frozen = FrozenClassifier.read(script, classes=2, input_shape=(3, 8, 8), device="cpu")
    assert (frozen.architecture, frozen.digest) == ("torchscript", hashlib.sha256(script.read_bytes()).hexdigest())
    x = torch.rand(2, 3, 8, 8, requires_grad=True)
    frozen.network(x).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0
    other = Addition(("cat", "dog"), (3, 8, 8), sigma=0.25, classifier=files[-1])
    with pytest.raises(ArchitectureError, match=r"the architecture of a denoiser must be one of .* got 'torchscript'"):
        add("other", [script.rename(tmp_path / "program.pt")], other, zoo=tmp_path / "zoo")
