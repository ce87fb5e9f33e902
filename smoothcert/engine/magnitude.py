"""Networks whose logits are known to be finite, whatever the image is.

A vote may leave out a member only where that member could not have made the class *no class*, as a single logit that is
not finite does. So its logits have to be known to be finite without running it. That follows from the weights: replace
every weight by its magnitude and every difference by a sum, and run the network in float64 on an image of large values.
Each value of that run is an upper bound on the magnitude of the same value for every image, by the triangle inequality.
If all of them are far from overflow, no value of the network is infinite, and without infinities none is NaN.

The bound grows exponentially with the depth of a network. It covers ResNet20 and LeNet, and not ResNet110. A network
that it does not cover, or that has an operation which is not named here, may be finite, but is not known to be.
"""

from __future__ import annotations

import copy
import logging
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

logger = logging.getLogger(__name__)

REACH = 1000.0
"""The largest magnitude of a pixel under noise for which networks are examined."""
ROOM = 2.0**-20
"""The share of a dtype's range that the bounds may use.

The rest is for rounding, for the sum behind a mean, and for algorithms of convolution that compute with multiples of
the values (Winograd).
"""

_BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_CONVOLUTION = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_MONOTONE = {
    nn.Identity, nn.Dropout, nn.Dropout2d, nn.Flatten, nn.ReLU, nn.ReLU6, nn.SiLU, nn.GELU, nn.Sigmoid, nn.Tanh,
    nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d,
    torch.relu, torch.sigmoid, torch.tanh, torch.flatten, torch.mean, torch.cat, functional.relu, functional.relu6,
    functional.silu, functional.gelu, functional.max_pool2d, functional.avg_pool2d, functional.adaptive_avg_pool2d,
    "relu", "sigmoid", "tanh", "flatten", "view", "reshape", "mean", "size",
}  # fmt: skip
"""Modules, functions and methods f in eval mode for which |x| <= y implies |f(x)| <= f(y)."""
_SUMS: set[Callable[..., Any]] = {operator.add, operator.sub, torch.add, torch.sub}


class UnknownError(Exception):
    """An operation of which no bound is known."""


def is_finite(network: nn.Module, dtype: torch.dtype, input_shape: tuple[int, int, int]) -> bool:
    """Whether every image with pixels from -REACH to REACH is known to get finite logits in this dtype."""
    try:
        magnitudes = _Magnitudes(network)
        magnitudes.refuse_another_function(input_shape)
        largest = magnitudes.largest(torch.full((1, *input_shape), REACH, dtype=torch.float64))
    except Exception as error:  # whatever a foreign network raises when it is traced, it is not known to be finite
        logger.debug("the logits of %s have no known bound: %s", type(network).__name__, error)
        return False
    return largest < ROOM * torch.finfo(dtype).max  # False for NaN


def within_reach(images: Tensor) -> Tensor:
    """Whether each image [N, C, H, W] has pixels from -REACH to REACH only; bool [N]."""
    low, high = torch.aminmax(images.flatten(1), dim=1)
    return (low >= -REACH) & (high <= REACH)  # False for NaN


class _Magnitudes(fx.Interpreter):
    """Runs a network on magnitudes: every value is an upper bound on that of the network."""

    def __init__(self, network: nn.Module) -> None:
        own = copy.deepcopy(network).cpu().double().eval()
        _refuse_hooks(own)
        super().__init__(fx.symbolic_trace(own))
        self._network, self._largest = own, 0.0

    @torch.inference_mode()
    def refuse_another_function(self, input_shape: tuple[int, int, int]) -> None:
        """Raise UnknownError where the trace computes something else: it adds `x += y` without writing over x."""
        image = torch.rand(1, *input_shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        found, traced = self._network(image.clone()), self.module(image.clone())
        if not (found - traced).abs().max() <= 1e-9 * found.abs().max():  # NaN is not below either
            raise UnknownError("the trace gives other logits than the network")

    @torch.inference_mode()
    def largest(self, image: Tensor) -> float:
        """The largest bound of all values of the network."""
        self.run(image)
        return self._largest

    def run_node(self, n: fx.Node) -> Any:
        if n.target in (operator.truediv, torch.div) and not _is_constant(n.args[1]):
            raise UnknownError(f"a division by {n.args[1]}, which may be small")
        value = super().run_node(n)
        if n.op != "output" and n.target != "size":
            if not isinstance(value, Tensor) or not value.isfinite().all():
                raise UnknownError(f"{n.format_node()} is not a finite tensor")
            self._largest = max(self._largest, float(value.max()))
        return value

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return super().get_attr(target, args, kwargs).abs()

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target in _SUMS and not kwargs:
            return operator.add(*map(_magnitude, args))
        if target in (operator.mul, torch.mul, operator.truediv, torch.div) and not kwargs:
            return target(*map(_magnitude, args))
        return self._monotone(target, super().call_function, target, args, kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self._monotone(target, super().call_method, target, args, kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        module = self.fetch_attr(target)
        if type(module) in (*_CONVOLUTION, nn.Linear) and getattr(module, "padding_mode", "zeros") == "zeros":
            for tensor in module.parameters(recurse=False):
                tensor.abs_()  # a copy of our own; a second time changes nothing
            return module(*args)
        if type(module) in _BATCH_NORM and module.running_var is not None:
            return _normalised(module, *args)
        return self._monotone(type(module), super().call_module, target, args, kwargs)

    @staticmethod
    def _monotone(kind: Any, call: Callable[..., Any], target: Any, args: Any, kwargs: Any) -> Any:
        if kind not in _MONOTONE:
            raise UnknownError(f"{kind} is not among the operations with a known bound")
        return call(target, args, kwargs)


def _normalised(norm: Any, x: Tensor) -> Tensor:
    """The bound of a batch norm in eval mode: (|x| + |mean|) / sqrt(var + eps) |gamma| + |beta|."""

    def along(channels: Tensor) -> Tensor:
        return channels.abs().view(1, -1, *(1 for _ in x.shape[2:]))

    bound = (x + along(norm.running_mean)) / along(norm.running_var + norm.eps).sqrt()
    return bound * along(norm.weight) + along(norm.bias) if norm.affine else bound


def _magnitude(value: Any) -> Any:
    return value if isinstance(value, Tensor) else abs(value)


def _is_constant(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, fx.Node) and value.op == "get_attr")


def _refuse_hooks(network: nn.Module) -> None:
    """Hooks and replaced methods change what a layer computes, and a trace does not show it."""
    for name, module in network.named_modules():
        if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
            raise UnknownError(f"{name or 'the network'} has a hook")
