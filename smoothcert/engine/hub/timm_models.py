"""Classifiers of timm: config.json names the architecture, and `pretrained_cfg` says how images are prepared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.engine.errors import MemberError, reason
from smoothcert.engine.head import require_classes
from smoothcert.engine.hub.model_folder import ModelFolder
from smoothcert.engine.hub.plain import plain
from smoothcert.engine.hub.stated import Stated, distinct
from smoothcert.engine.normalisation import Normalisation
from smoothcert.engine.vision import mend_torchvision
from smoothcert.extras import needed_by

NAME = "timm"
_ARCHITECTURE = re.compile(r"[a-z0-9_]{1,100}", re.ASCII)


def recognises(config: Mapping[str, Any]) -> bool:
    return "architecture" in config and "model_type" not in config


def read(snapshot: ModelFolder, config: dict[str, Any]) -> Stated:
    where = f"{snapshot.name}: config.json"
    name = config["architecture"]
    _require_known(name)
    prepared = config.get("pretrained_cfg")
    if not isinstance(prepared, dict):
        raise MemberError(f"{where} has no pretrained_cfg, which says how images are prepared")
    arguments = config.get("model_args") or {}
    try:
        channels, height, width = map(int, prepared["input_size"])
        normalisation = Normalisation(tuple(map(float, prepared["mean"])), tuple(map(float, prepared["std"])))
        classes = int(config["num_classes"] if "num_classes" in config else prepared["num_classes"])
    except (KeyError, TypeError, ValueError) as error:
        raise MemberError(f"{where} lacks input_size, mean, std or num_classes of timm: {reason(error)}") from error
    labels = config.get("label_names", prepared.get("label_names"))
    if isinstance(labels, list) and len(labels) != classes:
        raise MemberError(f"{where} has {len(labels)} label_names and {classes} classes")
    if channels != 3 and "in_chans" not in arguments:
        arguments = {**arguments, "in_chans": channels}
    return Stated(
        name,
        {"model_args": plain(f"{where}: model_args", arguments)},
        distinct(list(map(str, labels))) if isinstance(labels, list) else classes,
        (channels, height, width),
        normalisation,
    )


def build(name: str, config: Mapping[str, Any], tensors: Mapping[str, Tensor], classes: int) -> nn.Module:
    _require_known(name)
    arguments = plain(f"model_args of {name}", config.get("model_args") or {})
    if not isinstance(arguments, dict):
        raise MemberError(f"model_args of timm/{name} are of type {type(arguments).__name__}; they must be a table")
    # Build the network on the device meta first, which allocates no memory: the arguments come from a foreign file,
    # and the tensors say how large the network may be.
    with torch.device("meta"):
        outline = _made(name, arguments, classes)
    require_classes(outline, tensors, classes)
    _require_size(outline, tensors, name)
    network = _made(name, arguments, classes)
    try:
        network.load_state_dict(dict(tensors), strict=True)
    except RuntimeError as error:
        raise MemberError(f"the weights do not fit timm/{name}: {reason(error)}") from error
    return network.eval()


def _made(name: str, arguments: Mapping[str, Any], classes: int) -> nn.Module:
    chosen = {**arguments, "num_classes": classes, "pretrained": False}
    try:
        network: nn.Module = _timm().create_model(name, **chosen)
    except Exception as error:  # whatever a constructor raises for arguments that it does not know
        raise MemberError(f"timm/{name} cannot be built: {reason(error)}") from error
    return network


def _require_size(network: nn.Module, tensors: Mapping[str, Tensor], name: str) -> None:
    needed, there = (sum(each.numel() for each in some) for some in (network.parameters(), tensors.values()))
    if needed > there:
        raise MemberError(
            f"the weights do not fit timm/{name}: it has {needed:,} parameters, and the file has {there:,}"
        )


def _require_known(name: Any) -> None:
    """Raise MemberError unless timm itself has this architecture: timm would look for other names elsewhere."""
    if not isinstance(name, str) or not _ARCHITECTURE.fullmatch(name) or not _timm().is_model(name):
        raise MemberError(f"timm {_timm().__version__} has no architecture {str(name)[:100]!r}")


def _timm() -> Any:
    with needed_by("a model of timm"):
        mend_torchvision()
        import timm
    return timm
