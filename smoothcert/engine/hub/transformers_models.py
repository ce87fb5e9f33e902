"""Classifiers of transformers: config.json describes the network, preprocessor_config.json how images are prepared.

`trust_remote_code` is never set, and a configuration that asks for code of its repository is refused. So are values
that are not plain: transformers loads attention kernels from the hub where a configuration names a repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.engine.errors import MemberError, reason
from smoothcert.engine.head import require_classes
from smoothcert.engine.hub.model_folder import PREPROCESSOR, ModelFolder
from smoothcert.engine.hub.plain import plain
from smoothcert.engine.hub.stated import Stated, distinct
from smoothcert.engine.normalisation import Normalisation
from smoothcert.engine.vision import mend_torchvision
from smoothcert.extras import needed_by

NAME = "transformers"
_NOT_THE_NETWORK = """
    architectures auto_map attn_implementation custom_pipelines dtype experts_implementation finetuning_task id2label
    kernel_config label2id name_or_path num_labels output_attentions output_hidden_states problem_type
    quantization_config return_dict task_specific_params torch_dtype transformers_version use_kernels
"""
LEFT_OUT = frozenset(_NOT_THE_NETWORK.split())
"""The keys of a configuration that do not describe the network, or that choose code. Keys that begin with `_` are
left out as well."""
STEPS = frozenset({"do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb"})
"""The steps of a preprocessor that are understood. Resizing and cropping are left to the user."""
NOT_ONE_NETWORK = frozenset({"timm_wrapper"})
"""The kinds of models whose network belongs to another library."""


def recognises(config: Mapping[str, Any]) -> bool:
    return "model_type" in config


def read(snapshot: ModelFolder, config: dict[str, Any]) -> Stated:
    where = f"{snapshot.name}: config.json"
    _refuse_code(where, config)
    kind, name = config["model_type"], (config.get("architectures") or [None])[0]
    _class_of(kind, name)
    kept = {key: value for key, value in config.items() if key not in LEFT_OUT and not key.startswith("_")}
    labels = _labels(where, config)
    prepared = snapshot.preprocessor()
    return Stated(
        str(name),
        plain(where, kept),
        labels,
        _input_shape(where, config, prepared),
        None if prepared is None else _normalisation(f"{snapshot.name}: {PREPROCESSOR}", prepared, config),
    )


def build(name: str, config: Mapping[str, Any], tensors: Mapping[str, Tensor], classes: int) -> nn.Module:
    chosen, kind = plain(f"config of {name}", dict(config)), config.get("model_type")
    network_class = _class_of(kind, name)
    strange = sorted(key for key in chosen if key in LEFT_OUT or key.startswith("_"))
    if strange:
        raise MemberError(f"config of transformers/{name} has {', '.join(strange)}, which does not describe a network")
    try:
        stated = _transformers().CONFIG_MAPPING[kind](**{**chosen, "num_labels": classes})
        with torch.device("meta"):  # allocates no memory: the configuration is foreign
            outline = network_class(stated)
        require_classes(outline, tensors, classes)
        needed = sum(each.numel() for each in outline.parameters())
        there = sum(each.numel() for each in tensors.values())
        if needed > there:
            raise MemberError(f"the weights do not fit: it has {needed:,} parameters, and the file has {there:,}")
        with _silent():
            network, found = network_class.from_pretrained(
                None, config=stated, state_dict=dict(tensors), output_loading_info=True, dtype=torch.float32
            )
    except MemberError as error:
        raise type(error)(f"transformers/{name}: {error}") from error
    except Exception as error:  # whatever a constructor or loader raises
        raise MemberError(f"transformers/{name} cannot be built from its configuration: {reason(error)}") from error
    wrong = {what: sorted(map(str, keys)) for what, keys in found.items() if keys}
    if wrong:
        listed = "; ".join(f"{what.replace('_', ' ')} {', '.join(keys[:5])}" for what, keys in wrong.items())
        raise MemberError(f"the weights do not fit transformers/{name}: {listed}")
    made: nn.Module = network.eval()
    return made


def _refuse_code(where: str, config: Mapping[str, Any]) -> None:
    if config.get("auto_map"):
        raise MemberError(
            f"{where} asks for code of the repository (auto_map), which is never executed; only the "
            f"classifiers of transformers itself are accepted"
        )
    if config.get("quantization_config"):
        raise MemberError(f"{where} has quantised weights; only floating-point weights are accepted")
    if backbones := sorted(key for key, value in config.items() if "backbone" in key and value):
        raise MemberError(f"{where} has {', '.join(backbones)}; a network must not have another one inside")


def _class_of(kind: Any, name: Any) -> Any:
    """The class of this name among the image classifiers of transformers; MemberError if there is none."""
    library = _transformers()
    known = library.CONFIG_MAPPING
    if not isinstance(kind, str) or kind not in known or kind in NOT_ONE_NETWORK:
        raise MemberError(f"transformers {library.__version__} has no image classifier of type {kind!r}")
    try:
        found = library.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING[known[kind]]
    except KeyError:
        raise MemberError(f"a {kind} of transformers is not an image classifier") from None
    classes = {each.__name__: each for each in (found if isinstance(found, tuple | list) else [found])}
    if name not in classes:
        raise MemberError(f"{name!r} is not an image classifier; for {kind} it must be {', '.join(classes)}")
    return classes[name]


def _labels(where: str, config: Mapping[str, Any]) -> tuple[str, ...] | int:
    """The names of the classes in the order of the logits, or their number if transformers made the names up."""
    labels = config.get("id2label")
    if not isinstance(labels, dict):
        return 2  # the default of transformers
    if sorted(labels) != sorted(map(str, range(len(labels)))):
        raise MemberError(f"{where}: id2label does not number its classes from 0 to {len(labels) - 1}")
    names = [str(labels[str(index)]) for index in range(len(labels))]
    return len(names) if names == [f"LABEL_{index}" for index in range(len(names))] else distinct(names)


def _input_shape(where: str, config: Mapping[str, Any], prepared: Mapping[str, Any] | None) -> tuple[int, int, int]:
    """The shape of the images that the network takes: after cropping, after resizing, or from its own configuration."""
    steps = prepared or {}
    sizes = [
        steps.get("crop_size") if steps.get("do_center_crop") else None,
        steps.get("size") if steps.get("do_resize", True) else None,
        config.get("image_size"),
    ]
    for size in sizes:
        match size:
            case {"height": int(height), "width": int(width)}:
                break
            case {"shortest_edge": int(height)} | int(height):
                width = height
                break
            case [int(height), int(width)]:
                break
    else:
        raise MemberError(f"{where} and {PREPROCESSOR} do not say how large images are: give the shape of the input")
    channels = config.get("num_channels", 3)
    if type(channels) is not int or min(channels, height, width) < 1:
        raise MemberError(
            f"{where} says that images have the shape {(channels, height, width)}; all three must be positive"
        )
    return channels, height, width


def _normalisation(where: str, prepared: Mapping[str, Any], config: Mapping[str, Any]) -> Normalisation:
    """The normalisation of images in [0, 1] that does what the preprocessor does to bytes.

    It multiplies bytes by `rescale_factor`, subtracts the mean and divides by the standard deviation.
    """
    others = [key for key, value in prepared.items() if key.startswith("do_") and value and key not in STEPS]
    others += [key for key in ("rescale_offset", "include_top") if prepared.get(key)]
    if others:
        raise MemberError(
            f"{where} prepares images by {', '.join(others)}, which is not understood: give the mean and the standard "
            f"deviation yourself"
        )
    channels = config.get("num_channels", 3)
    try:
        scale = 255 * float(prepared.get("rescale_factor", 1 / 255)) if prepared.get("do_rescale", True) else 255.0
        normalises = prepared.get("do_normalize", True)
        mean, std = (
            _per_channel(prepared[key], channels) if normalises else (default,) * channels
            for key, default in (("image_mean", 0.0), ("image_std", 1.0))
        )
        return Normalisation(tuple(m / scale for m in mean), tuple(s / scale for s in std))
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise MemberError(f"{where} has no usable image_mean and image_std: {reason(error)}") from error


def _per_channel(value: Any, channels: int) -> tuple[float, ...]:
    return tuple(map(float, value)) if isinstance(value, list) else (float(value),) * channels


@contextmanager
def _silent() -> Iterator[None]:
    """Keep transformers from printing progress bars and advice."""
    logs = _transformers().utils.logging
    level, bars = logs.get_verbosity(), logs.is_progress_bar_enabled()
    logs.set_verbosity_error()
    logs.disable_progress_bar()
    try:
        yield
    finally:
        logs.set_verbosity(level)
        if bars:
            logs.enable_progress_bar()


def _transformers() -> Any:
    with needed_by("a model of transformers"):
        mend_torchvision()
        import transformers
    return transformers
