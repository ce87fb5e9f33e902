from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from models.architectures import build, load_weights
from models.errors import ArchitectureError
from smoothcert.engine.errors import ClassCountError, NormalisationError
from smoothcert.engine.normalisation import Normalisation, Normalised

HALVES = Normalisation((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("name", "classes", "count"),
    [("cifar-resnet20", 10, 272_474), ("cifar-resnet110", 10, 1_730_714), ("torchvision/resnet50", 1000, 25_557_032)],
)
def test_networks_have_the_parameters_of_the_paper(name: str, classes: int, count: int) -> None:
    with torch.device("meta"):  # parameters without values can be counted, too
        assert parameters(build(name, classes=classes)) == count


@pytest.mark.parametrize("name", ["cifar-resnet20", "torchvision/squeezenet1_1"])
def test_the_normalisation_is_the_first_layer(name: str) -> None:
    torch.manual_seed(0)
    network = build(name, classes=4, normalisation=HALVES).eval()
    torch.manual_seed(0)
    bare = build(name, classes=4, normalisation=Normalisation((0.0,) * 3, (1.0,) * 3)).eval()
    x = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(network(x), bare((x - 0.5) / 0.25), atol=1e-5)


def test_weights_go_behind_the_normalisation() -> None:
    donor = build("torchvision/squeezenet1_1", classes=4)
    network = build("torchvision/squeezenet1_1", classes=4, normalisation=HALVES)
    load_weights(network, donor.state_dict())
    assert isinstance(network, Normalised)
    assert torch.equal(next(network.network.parameters()), next(donor.parameters()))


def test_weights_that_do_not_fit_are_named() -> None:
    weights = build("cifar-resnet20", classes=10).state_dict()
    with pytest.raises(ArchitectureError, match=r"fc\.weight") as found:
        load_weights(build("cifar-resnet20", classes=7), weights)
    assert "\n" not in str(found.value)
    weights["stranger"] = weights.pop("conv.weight")
    with pytest.raises(
        ArchitectureError, match=r"they lack 1 tensor \(conv\.weight\); they also have 1 tensor \(stranger\)"
    ):
        load_weights(build("cifar-resnet20", classes=10), weights)
    with pytest.raises(ArchitectureError, match=r"they lack \d+ tensors \(conv\.weight, \S+, \S+, \.\.\.\)$"):
        load_weights(build("cifar-resnet20", classes=10), {})


@pytest.mark.parametrize("architecture", ["cifar-resnet20", "mnist-lenet", "torchvision/squeezenet1_1"])
@pytest.mark.parametrize("classes", [7, 11])
def test_weights_of_another_number_of_classes_are_told_by_their_outputs(architecture: str, classes: int) -> None:
    weights = build(architecture, classes=10).state_dict()
    network = build(architecture, classes=classes)
    with pytest.raises(ClassCountError, match=rf"^the network has 10 outputs, and there are {classes} class names$"):
        load_weights(network, weights, classes=classes)


def test_weights_that_do_not_fit_elsewhere_are_not_blamed_on_the_classes() -> None:
    weights = build("cifar-resnet20", classes=10).state_dict()
    weights["conv.weight"] = weights["conv.weight"][:, :1]
    with pytest.raises(ArchitectureError, match=r"do not fit the network: .*conv\.weight"):
        load_weights(build("cifar-resnet20", classes=7), weights, classes=7)


def test_complex_weights_are_not_cut_to_their_real_parts() -> None:
    weights = build("cifar-resnet20", classes=10).state_dict()
    weights["fc.bias"] = weights["fc.bias"].to(torch.complex64)
    with pytest.raises(ArchitectureError, match=r"the weights must be real, and these are complex: fc\.bias"):
        load_weights(build("cifar-resnet20", classes=10), weights)


@pytest.mark.parametrize(
    "name", ["resnet20", "torchvision/fasterrcnn_resnet50_fpn", "torchvision/none", "a b:c", "torchscript"]
)
def test_an_unknown_architecture_is_named(name: str) -> None:
    with pytest.raises(ArchitectureError, match=name) as caught:
        build(name, classes=10)
    if ":" not in name and "/" not in name:
        assert "torchvision/<name>, timm/<name>, or module:callable for a network of your own" in str(caught.value)


def test_an_import_needs_the_operators_leave() -> None:
    path = "tests.support.networks:Tiny"
    with pytest.raises(ArchitectureError, match="is not among the imports allowed here, other:thing; if"):
        build(path, classes=3, allowed_imports=frozenset({"other:thing"}))
    with pytest.raises(
        ArchitectureError, match=f"--allow-import {path} .* SMOOTHCERT_ALLOWED_IMPORTS={path} for workers"
    ):
        build(path, classes=3)
    with pytest.raises(ArchitectureError, match="No module named 'nowhere'; PYTHONPATH must have the folder"):
        build("nowhere:Tiny", classes=3, allowed_imports=frozenset({"nowhere:Tiny"}))
    assert build(path, classes=5, allowed_imports=frozenset({path})).fc.out_features == 5


@pytest.mark.parametrize(("name", "near"), [("Tin", ", did you mean Tiny?"), ("Zebra", ""), ("Modul", "")])
def test_a_misspelt_class_names_the_nearest_of_its_module(name: str, near: str) -> None:
    path = f"tests.support.networks:{name}"
    with pytest.raises(ArchitectureError) as caught:
        build(path, classes=3, allowed_imports=frozenset({path}))
    assert str(caught.value) == f"architecture {path!r}: module 'tests.support.networks' has no {name!r}{near}"


def test_own_code_that_raises_is_a_sentence_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raising.py").write_text("def network(classes):\n    raise RuntimeError('no such table')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ArchitectureError) as caught:
        build("raising:network", classes=3, allowed_imports=frozenset({"raising:network"}))
    assert str(caught.value) == "architecture 'raising:network': RuntimeError: no such table (line 2 of raising.py)"


def test_own_code_that_takes_other_arguments_is_told_how_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sized.py").write_text("def network(num_classes):\n    return None\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ArchitectureError, match=r"keyword argument 'classes'; it is called with classes=3$"):
        build("sized:network", classes=3, allowed_imports=frozenset({"sized:network"}))


@pytest.mark.parametrize("path", ["tests.support.networks:numbered", "tests.support.networks:none", "nowhere:Tiny"])
def test_an_import_that_is_no_network_is_named(path: str) -> None:
    with pytest.raises(ArchitectureError, match=path):
        build(path, classes=3, allowed_imports=frozenset({path}))


@pytest.mark.parametrize(
    ("mean", "std"), [((0.5,), (0.0,)), ((0.5,), (float("nan"),)), ((float("inf"),), (1.0,)), ((0.5,), ()), ((), ())]
)
def test_a_normalisation_must_be_finite_and_of_one_length(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    with pytest.raises(NormalisationError, match="normalisation"):
        Normalisation(mean, std)
