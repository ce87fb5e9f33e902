"""The form in which a member is run.

Batch norm is folded into the convolutions. Sums and ReLUs overwrite their input where no other node reads it. Tensors
are channels-last. On the CPU a batch goes through the network in slices: what a layer frees is small enough to be kept
for the next one (`engine.allocator`).

Every slice has the same shape, and the last one is padded. So a kernel that is chosen by batch size cannot change a
class, and the result of a row depends neither on the batch that it came in nor on its place there. (Torch's
`optimize_for_inference` is not used for this reason: the low bits of its logits change with a row's place.)

A slice is always a copy: a network may overwrite its input, which must not affect the caller or another member.

The optimised form is compared with the plain network on a probe before it is used. Where it cannot be made, or gives
another class or other logits, a warning says so and the plain network runs.

A runtime computes the form: torch, or another one where it is faster (`RUNTIMES`). Certificates name it.
"""

from __future__ import annotations

import copy
import logging
import math
import operator
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from smoothcert.engine import allocator, arithmetic
from smoothcert.engine import precision as precisions
from smoothcert.engine.errors import ClassCountError, MemberError, RuntimeNameError, reason
from smoothcert.engine.normalisation import Normalise, Normalised
from smoothcert.engine.voting import finite, lowest_argmax

logger = logging.getLogger(__name__)

SLICE_VALUES = 64 * 3 * 32 * 32
"""The input values of a slice on the CPU: 64 CIFAR images, the fastest of 32, 64, 128 and 256 for ResNet20."""

Optimiser = Callable[[nn.Module, torch.device, torch.dtype], tuple[nn.Module, str]]
"""Makes a network's optimised form on a device, in a dtype, and names it."""

CLOSE = 1e-3
"""How far the logits of an optimised form may be from the plain ones, as a share of the largest logit.

It is far above the rounding of float32, so only a wrong form exceeds it.
"""

CONTIGUOUS = ("plain", "openvino", "onnxruntime")
"""The kinds of forms that take their images in torch's usual order and not channels-last."""

_Convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_BatchNorm = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_IN_PLACE = {operator.add: operator.iadd, torch.relu: torch.relu_}
"""Operations that can overwrite their first input, and their variants that do."""


@dataclass(frozen=True)
class Form:
    """A network on its device, in its dtype, run in slices of one shape [rows, C, H, W].

    Several threads may call it: only the training flags are written, and always with False.
    """

    network: nn.Module
    kind: str
    shape: tuple[int, int, int, int]
    device: torch.device
    dtype: torch.dtype

    @property
    def versions(self) -> dict[str, str]:
        """The version of the runtime that computes it, by the runtime's name; empty where torch does."""
        stated: dict[str, str] = getattr(self.network, "versions", {})
        return stated

    @torch.inference_mode()
    def __call__(self, batch: Tensor) -> Tensor:
        """Logits, float32 [N, classes] on the device, for images [N, C, H, W] on any device."""
        self.network.eval()  # at every call, because a caller may have left the network in train mode
        return torch.cat([self._run(rows) for rows in torch.split(batch, self.shape[0])])

    def _run(self, images: Tensor) -> Tensor:
        rows = len(images)
        layout = torch.contiguous_format if self.kind in CONTIGUOUS else torch.channels_last
        own = torch.empty(self.shape, device=self.device, dtype=self.dtype, memory_format=layout)
        own[:rows].copy_(images)
        own[rows:].zero_()
        logits: Tensor = self.network(own)
        return logits[:rows].float()


def prepare(
    network: nn.Module,
    *,
    name: str,
    classes: int,
    input_shape: tuple[int, int, int],
    batch: int = 256,
    device: str = "cpu",
    precision: str = "float32",
    optimise: bool = True,
    runtime: str = "torch",
) -> Form:
    """The fastest form of a network that gives the same classes as the plain one.

    `batch` is the number of images that will come at a time; other numbers work and are padded. Raises MemberError
    for a network that does not map [rows, *input_shape] to [rows, classes], row by row, and torch's own error where
    memory runs out. In float32 the network itself is moved to the device; other precisions are copies.
    """
    refuse_misfit(network, name=name, channels=input_shape[0])
    dtype = precisions.require(precision, device)
    where = torch.device(device)
    arithmetic.settle(where)
    if where.type == "cpu":
        allocator.settle()
    shape = (_slice_rows(network, batch, input_shape, where), *input_shape)
    own = network if dtype is torch.float32 else copy.deepcopy(network)
    plain = Form(own.to(where, dtype), "plain", shape, where, dtype)
    images = probe_images(shape)
    logits = _examine(plain, images, name=name, classes=classes)
    if not optimise:
        return plain
    for chosen in dict.fromkeys((runtime, "torch")):
        optimiser = optimiser_of(chosen, where)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns that its own copying, freezing, tracing are deprecated
                form = Form(*optimiser(network, where, dtype), shape, where, dtype)
                # Torch's kernels are those of the plain network; another runtime may mix rows in its own way.
                again = (
                    _settled(form, images) if chosen == "torch" else _examine(form, images, name=name, classes=classes)
                )
            _compare(logits, again, dtype)
        except Exception as error:  # whatever fails in an optimiser, the plain network is correct
            if is_out_of_memory(error):
                raise
            instead = "in its plain, slower form" if chosen == "torch" else "by torch"
            logger.warning("member %s runs %s: %s: %s", name, instead, type(error).__name__, error)
        else:
            return form
    return plain


def resize(form: Form, batch: int, *, name: str, classes: int) -> Form:
    """The same network, not a copy, for another number of images at a time; examined again if the slices change."""
    input_shape = form.shape[1:]
    resized = replace(form, shape=(_slice_rows(form.network, batch, input_shape, form.device), *input_shape))
    if resized.shape != form.shape:
        _examine(resized, probe_images(resized.shape), name=name, classes=classes)
    return resized


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a GPU or the host ran out of memory; torch has no error class for the host."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def probe_images(shape: tuple[int, int, int, int]) -> Tensor:
    """Noisy images that are always the same: coarse random colours, so that the classes vary, under noise of 0.25."""
    generator = torch.Generator().manual_seed(20)
    coarse = torch.rand(*shape[:2], 4, 4, generator=generator)
    colours = nn.functional.interpolate(coarse, size=shape[2:], mode="bilinear")
    return colours + 0.25 * torch.randn(shape, generator=generator)


def fold_batch_norm(network: nn.Module) -> nn.Module:
    """A copy in which every batch norm that directly follows a convolution is part of that convolution.

    In eval mode a batch norm computes (x - mean) / sqrt(var + eps) * gamma + beta for each channel. Applied to
    x = W * z + b this is a convolution with the weights W gamma / sqrt(var + eps) and the bias
    (b - mean) gamma / sqrt(var + eps) + beta, so both layers become one.
    """
    # 1. Trace the network: every layer becomes a node of a graph, with its inputs in `args` and its readers in `users`.
    traced = fx.symbolic_trace(copy.deepcopy(network).eval())
    # 2. Note what may not change: modules that are called more than once, and modules whose tensors the graph reads
    #    directly (by a `get_attr` node such as "conv.weight").
    calls = Counter(node.target for node in traced.graph.nodes if node.op == "call_module")
    read = {node.target.rpartition(".")[0] for node in traced.graph.nodes if node.op == "get_attr"}
    for node in list(traced.graph.nodes):
        # 3. Find a batch norm with statistics of its own; without them it normalises by the batch.
        norm = _called(traced, node)
        if not isinstance(norm, _BatchNorm) or norm.running_mean is None:
            continue
        # 4. Its input must be a convolution whose output only this batch norm reads.
        before = node.args[0]
        convolution = _called(traced, before)
        shared = calls[node.target] > 1 or calls[before.target] > 1 or len(before.users) > 1
        if not isinstance(convolution, _Convolution) or shared or before.target in read:
            continue
        # 5. Replace the convolution by the folded one, and let the readers of the batch norm read it instead.
        traced.set_submodule(before.target, fuse_conv_bn_eval(convolution, norm))
        node.replace_all_uses_with(before)
        traced.graph.erase_node(node)
    # 6. Save memory traffic, drop the modules that no node calls any more, and generate the code of the new graph.
    _write_in_place(traced)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced.eval()


def _write_in_place(traced: fx.GraphModule) -> None:
    """Let sums and ReLUs overwrite the output of a convolution or a sum that no other node reads."""
    for node in traced.graph.nodes:
        source = node.args[0] if node.op == "call_function" and node.args else None
        if node.target not in _IN_PLACE or not isinstance(source, fx.Node):
            continue
        fresh = isinstance(_called(traced, source), _Convolution) or source.target in (operator.add, operator.iadd)
        if fresh and len(source.users) == 1:
            node.target = _IN_PLACE[node.target]


def _called(traced: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    return traced.get_submodule(str(node.target)) if node.op == "call_module" else None


def _slice_rows(network: nn.Module, batch: int, input_shape: tuple[int, int, int], device: torch.device) -> int:
    """The rows of a slice: as many as fit SLICE_VALUES, shared evenly, so that a full batch has hardly any padding.

    A GPU gets whole batches, and so does a network that runs elsewhere and says `whole_batches`.
    """
    inner = network.network if isinstance(network, Normalised) else network
    if device.type != "cpu" or getattr(inner, "whole_batches", False):
        return batch
    # Both divisions round up: the fewest slices that hold the batch, and then the fewest rows that fill them evenly.
    slices = -(-batch // max(8, SLICE_VALUES // math.prod(input_shape)))
    return -(-batch // slices)


def optimised(network: nn.Module, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, str]:
    """A copy of the network in its fast form, and the name of that form.

    A module that knows its own fast form has a method `optimised(device, dtype)`; others are folded.
    """
    if isinstance(network, OffersForm):
        return network.optimised(device, dtype)
    if isinstance(network, torch.jit.ScriptModule):
        return torch.jit.freeze(placed(copy.deepcopy(network), device, dtype).eval()), "frozen"
    return placed(fold_batch_norm(network), device, dtype), "folded"


RUNTIMES = ("torch", "onnxruntime", "openvino", "compiled")
"""What can compute the optimised form of a member."""


def optimiser_of(runtime: str, device: torch.device) -> Optimiser:
    """What makes the form for a runtime; raises where the runtime is unknown, not installed, or not for the device."""
    match runtime:
        case "torch":
            return optimised
        case "onnxruntime":
            from smoothcert.engine import onnxruntime  # which imports this module, and its extra

            return onnxruntime.optimiser(device)
        case "openvino":
            from smoothcert.engine import openvino  # its extra is imported only if this runtime is chosen

            return openvino.optimiser(device)
        case "compiled":
            from smoothcert.engine import compiled  # which imports this module

            return compiled.optimiser(device)
    raise RuntimeNameError(f"runtime must be one of {', '.join(RUNTIMES)}; got {runtime!r}")


@runtime_checkable
class OffersForm(Protocol):
    """A module that knows its own fast form."""

    def optimised(self, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, str]:
        """A copy in that form, and the form's name."""


def placed(network: nn.Module, device: torch.device, dtype: torch.dtype) -> nn.Module:
    return network.to(device, dtype).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _settled(form: Form, images: Tensor) -> Tensor:
    """The logits of the probe. TorchScript specialises itself in its first two runs, so these do not count."""
    script = any(isinstance(module, torch.jit.ScriptModule) for module in form.network.modules())
    for _ in range(2 if script else 0):
        form(images)
    return form(images)


def _examine(form: Form, images: Tensor, *, name: str, classes: int) -> Tensor:
    """The logits of the probe; MemberError unless the network is a function of each row alone."""
    rows = len(images)
    kept = torch.randperm(rows, generator=torch.Generator().manual_seed(rows)) < (rows + 1) // 2
    others = images.flip(-1) + 0.5
    try:
        logits = _settled(form, images)
        # Every row comes a second time beside other images. The halves are random, because a network may mix any rows.
        once, twice = (form(torch.where(half.view(-1, 1, 1, 1), images, others)) for half in (kept, ~kept))
    except Exception as error:  # whatever a foreign network raises
        if is_out_of_memory(error):
            raise
        raise MemberError(
            f"member {name} cannot take images of shape {tuple(images.shape)}: {reason(error)}"
        ) from error
    for seen in (logits, once, twice):
        if seen.shape != (rows, classes):
            raise ClassCountError(
                f"member {name} gives logits of shape {tuple(seen.shape)}, not ({rows}, {classes}): there must be one "
                f"for each of the {classes} classes that are named"
            )
    repeated = torch.where(kept.view(-1, 1).to(form.device), once, twice)
    if not torch.allclose(logits, repeated, rtol=0, atol=_rounding(logits, form.dtype), equal_nan=True):
        raise MemberError(
            f"member {name} gives an image different logits when other images are beside it, or on a second call"
        )
    return logits


def _compare(plain: Tensor, form: Tensor, dtype: torch.dtype) -> None:
    """Raise MemberError unless the logits are close and the classes equal where the plain lead is above rounding."""
    sound = finite(plain.unsqueeze(0))
    if not torch.equal(sound, finite(form.unsqueeze(0))):
        raise MemberError("its optimised form differs in which logits are finite")
    first, second = plain.topk(2, dim=1).values.unbind(1)
    clear = first - second > _rounding(plain, dtype)
    differs = clear & (lowest_argmax(plain) != lowest_argmax(form))
    if differs.any():
        raise MemberError(f"its optimised form gives other classes to {int(differs.sum())} of {len(plain)} images")
    distance, largest = _largest((plain - form)[sound]), _largest(plain)
    if distance > max(CLOSE * largest, _rounding(plain, dtype)):
        raise MemberError(
            f"its optimised form gives logits that are off by {distance:.3g}; the largest is {largest:.3g}"
        )


def refuse_misfit(network: nn.Module, *, name: str, channels: int) -> None:
    """Raise MemberError for what torch accepts: means that broadcast over channels, complex numbers cut to reals."""
    for module in network.modules():
        if isinstance(module, Normalise) and module.mean.numel() != channels:
            raise MemberError(
                f"member {name} normalises {module.mean.numel()} channels, and the images have {channels}"
            )
    for key, tensor in [*network.named_parameters(), *network.named_buffers()]:
        if tensor.is_complex():
            raise MemberError(f"member {name} has complex numbers in {key}")


def _rounding(logits: Tensor, dtype: torch.dtype) -> float:
    """How far rounding in this dtype may move logits: 32 units in the last place of the largest."""
    return 32 * torch.finfo(dtype).eps * max(_largest(logits), 1e-3)


def _largest(values: Tensor) -> float:
    """The largest magnitude among the finite values; 0 where there are none."""
    return float(values.nan_to_num(0.0, 0.0, 0.0).abs().max()) if values.numel() else 0.0
