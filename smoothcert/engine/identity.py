"""What an ensemble and its members are known by: digests of all that determines their logits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from smoothcert.canonical import digest
from smoothcert.engine.exits import Limits
from smoothcert.engine.normalisation import Normalisation


@dataclass(frozen=True)
class Identity:
    """What determines the logits of a member.

    `digest` is the sha256 of its file; for a classifier behind a denoiser see `engine.denoised.chained`.
    """

    architecture: str
    digest: str
    normalisation: Normalisation | None = None


def ensemble_digest(
    members: Sequence[Identity],
    classes: Sequence[str],
    input_shape: Sequence[int],
    weights: Mapping[str, float] | None,
    limits: Limits | None = None,
) -> str:
    """sha256 over the canonical JSON (RFC 8785) of

        {"format": 1, "classes": [...], "input_shape": [C, H, W],
         "members": [{"architecture", "digest", "normalisation": null or {"mean", "std"}}, ...] in ranked order,
         "weights": null or {member digest: weight},
         "limits": [low, high], absent where there are none}

    Voting rule, K, precision and device are not in it: a certificate records them on their own, and they may differ
    between two requests to the same ensemble. Names, training records, the noise of training and the ranking's
    accuracies are not in it either.
    """
    stated = {
        "format": 1,
        "classes": list(classes),
        "input_shape": list(input_shape),
        "members": [
            {
                "architecture": member.architecture,
                "digest": member.digest,
                "normalisation": member.normalisation
                and {"mean": member.normalisation.mean, "std": member.normalisation.std},
            }
            for member in members
        ],
        "weights": None if weights is None else dict(weights),
    }
    return digest(stated if limits is None else stated | {"limits": list(limits)})


def network_digest(network: nn.Module) -> str:
    """sha256 over the structure (see `_structure`) and the names, dtypes, shapes and values of all tensors.

    It identifies a network that has no file. Code is represented by the name of its class, so two versions of a class
    look alike.
    """
    sha = hashlib.sha256()
    for name, module in network.named_modules():
        sha.update(f"{name} {_structure(module)}\n".encode())
    for name, tensor in sorted([*network.named_parameters(), *network.named_buffers()]):
        sha.update(f"{name} {_tensor_digest(tensor)}\n".encode())
    return sha.hexdigest()


def _tensor_digest(tensor: Tensor) -> str:
    sha = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    sha.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()


def _structure(module: nn.Module) -> str:
    """The class of a module, what it prints of itself, its plain attributes, and its code where it carries any."""
    kind = type(module)
    plain = {
        key: value
        for key, value in sorted(vars(module).items())
        if isinstance(value, bool | int | float | str) and key != "training" and not key.startswith("_")
    }
    return f"{kind.__module__}.{kind.__qualname__}({module.extra_repr()}) {plain} {_code(module)}"


def _code(module: nn.Module) -> str:
    """The code that a traced module carries, with its constants: all the weights, where a script was frozen."""
    if isinstance(module, fx.GraphModule):
        return module.code
    if not isinstance(module, torch.jit.ScriptModule) or not hasattr(module, "code_with_constants"):
        return ""  # a script that is never called has no code
    code, constants = module.code_with_constants
    named = {
        name: _tensor_digest(value) if isinstance(value, Tensor) else value
        for name, value in sorted(constants.const_mapping.items())
    }
    return f"{code} {named}"
