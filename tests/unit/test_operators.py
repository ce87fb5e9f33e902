"""The list of operators has what classifiers need, and nothing that reaches out of a program."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial

import pytest
import torch
from torch import nn

from models import operators
from models.confinement import Suspect, try_out
from models.programs import read_program
from models.resnet import CifarResNet
from smoothcert.engine.vision import torchvision

WAYS = {"approximate", "equation", "indexing", "mode", "padding", "rounding_mode"}
"""The names of string arguments that select one of a few ways to compute."""
TEXTS = {
    *("a", "assert_msg", "b", "cls", "dict", "el", "idx", "item", "key", "l", "msg", "s", "self", "separator"),
    *("string", "substr", "t"),
}
"""The names of the texts, lists and keys of TorchScript's operations on texts, and of the messages of errors."""
RANDOM = {*operators.DROPOUTS.split(), "scaled_dot_product_attention"}
"""Listed operators that draw random numbers in training mode, in which a program is refused."""


def schemas() -> Iterator[tuple[str, torch.FunctionSchema]]:
    """The schemas of all overloads of all listed operators, by the name of the operator."""
    for schema in torch._C._jit_get_all_schemas():
        if operators.is_allowed(schema.name):
            yield schema.name.partition("::")[2], schema


def test_every_entry_is_an_operator() -> None:
    known = {schema.name for schema in torch._C._jit_get_all_schemas()}
    assert {name for name in operators.ATEN if f"aten::{name}" not in known} == set()


def test_no_listed_operator_takes_the_name_of_something() -> None:
    """Mutant killed: `from_file` or `save` on the list, whose argument is a `filename`."""
    for _, schema in schemas():
        assert {each.name for each in schema.arguments if "str" in str(each.type)} <= WAYS | TEXTS, schema


def test_no_listed_operator_is_random_outside_training() -> None:
    for name, schema in schemas():
        if not hasattr(torch.ops.aten, name):
            continue
        overload = getattr(getattr(torch.ops.aten, name), schema.overload_name or "default", None)
        if overload is not None and torch.Tag.nondeterministic_seeded in overload.tags:
            assert name.removesuffix("_") in RANDOM, schema


@pytest.mark.parametrize(
    "name",
    [
        *("aten::from_file", "aten::save", "aten::warn", "aten::empty", "aten::empty_like", "aten::new_empty"),
        *("aten::resize_", "aten::set_", "aten::as_strided", "aten::rand", "aten::randn", "aten::bernoulli_"),
        *("prim::Print", "prim::Loop", "prim::PythonOp", "prim::CallMethod", "prim::SetAttr", "prim::fork"),
        *("custom::relu", "relu", "aten::", "aten::_", "aten::__", "quantized::linear", "prims::add", "aten:relu"),
    ],
)
def test_what_reaches_out_is_not_on_the_list(name: str) -> None:
    assert not operators.is_allowed(name)


def small(family: str) -> nn.Module:
    """A small network of a family of torchvision, which has the same kinds of layers as the large ones."""
    models = torchvision().models
    tree: dict[str, Callable[[], nn.Module]] = {
        "cifar-resnet": partial(CifarResNet, 1, 3),
        "convnext": partial(
            models.ConvNeXt,
            [models.convnext.CNBlockConfig(8, None, 2)],
            stochastic_depth_prob=0.5,
            num_classes=3,
        ),
        "densenet": partial(models.DenseNet, 4, (1, 1), 8, num_classes=3),
        "efficientnet": partial(
            models.EfficientNet,
            [models.efficientnet.MBConvConfig(2, 3, 1, 8, 8, 2)],
            dropout=0.5,
            num_classes=3,
        ),
        "swin": partial(models.SwinTransformer, [2, 2], 8, [2], [2], [4, 4], stochastic_depth_prob=0.5, num_classes=3),
        "vit": partial(models.VisionTransformer, 32, 16, 1, 2, 8, 16, num_classes=3),
    }
    torch.manual_seed(0)
    return tree[family]().eval()


FAMILIES = ["cifar-resnet", "convnext", "densenet", "efficientnet", "swin", "vit"]
SHAPE = (3, 32, 32)


def scripted(network: nn.Module) -> bytes:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(network), buffer)
    return buffer.getvalue()


def traced(network: nn.Module) -> bytes:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(network, torch.rand(2, *SHAPE), check_trace=False), buffer)
    return buffer.getvalue()


def exported(network: nn.Module) -> bytes:
    buffer = io.BytesIO()
    batch = {0: torch.export.Dim("batch", min=1)}
    torch.export.save(torch.export.export(network, (torch.rand(2, *SHAPE),), dynamic_shapes=(batch,)), buffer)
    return buffer.getvalue()


@cache
def programs(family: str) -> list[tuple[str, bytes]]:
    """The network of a family in all forms in which torch makes a program of it."""
    network = small(family)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        programs = [("torchscript", traced(network)), ("exported", exported(network))]
        if family != "cifar-resnet":  # its annotations are texts, which TorchScript does not understand
            programs.append(("torchscript", scripted(network)))
    return programs


@pytest.mark.parametrize("family", FAMILIES)
def test_classifiers_pass(family: str) -> None:
    x = torch.rand(3, *SHAPE)
    with torch.inference_mode():
        expected = small(family)(x)
        for kind, data in programs(family):
            assert torch.allclose(read_program(kind, data)(x), expected, atol=1e-4)


def test_classifiers_pass_in_the_confined_process() -> None:
    """The child must not look for a file, such as a module of torch, once it is confined."""
    suspects = [Suspect(kind, data, SHAPE) for family in ("swin", "vit") for kind, data in programs(family)]
    assert try_out(suspects) == [None] * len(suspects)
