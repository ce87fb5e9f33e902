"""A classifier behind a denoiser: noisy pixels, then the denoiser, then the normalisation and the classifier.

For certificates such a chain is one base classifier (denoised smoothing; Salman et al., 2020).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.canonical import digest
from smoothcert.engine.errors import ClassCountError, MemberError, reason
from smoothcert.engine.form import optimised, refuse_misfit
from smoothcert.engine.identity import Identity


class Denoised(nn.Module):
    """The classifier of denoised images: classifier(denoiser(x))."""

    def __init__(self, denoiser: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.denoiser = denoiser
        self.classifier = classifier

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.denoiser(x))
        return logits

    def optimised(self, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, str]:
        """Each stage in its own fast form (see `engine.form`). Tracing both at once would copy a shared stage."""
        denoiser, first = optimised(self.denoiser, device, dtype)
        classifier, second = optimised(self.classifier, device, dtype)
        return nn.Sequential(denoiser, classifier), first if first == second else f"{first} > {second}"


class Shared(nn.Module):
    """A stage of several members: its fast form is made once, and all of them run the same one."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self._forms: dict[tuple[torch.device, torch.dtype], tuple[nn.Module, str]] = {}

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.network(x)
        return y

    def optimised(self, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, str]:
        if (device, dtype) not in self._forms:
            self._forms[device, dtype] = optimised(self.network, device, dtype)
        return self._forms[device, dtype]

    def __getstate__(self) -> dict[str, Any]:
        """Copies make their own form."""
        return {**vars(self), "_forms": {}}


def chained(denoiser: Identity, classifier: Identity) -> Identity:
    """The identity of a denoiser and its classifier as one member.

    Its digest is the sha256 of the canonical JSON (RFC 8785) of

        {"format": 1, "stages": [{"architecture", "sha256", "normalisation": null or {"mean", "std"}}, ...]}

    The digest covers the normalisation of the classifier, which is applied to denoised images and not to the input.
    """
    stages = [
        {
            "architecture": stage.architecture,
            "sha256": stage.digest,
            "normalisation": stage.normalisation and {"mean": stage.normalisation.mean, "std": stage.normalisation.std},
        }
        for stage in (denoiser, classifier)
    ]
    name = f"{denoiser.architecture} > {classifier.architecture}"
    return Identity(name, digest({"format": 1, "stages": stages}))


@torch.inference_mode()
def check_denoiser(denoiser: nn.Module, images: Tensor, *, name: str) -> None:
    """Raise MemberError unless the denoiser maps images [N, C, H, W] to floating-point images of the same shape.

    It is put in eval mode.
    """
    try:
        output = denoiser.eval()(images.clone())  # a network may write over its input
    except Exception as error:  # whatever a foreign network raises
        raise MemberError(
            f"denoiser {name} cannot take images of shape {tuple(images.shape)}: {reason(error)}"
        ) from error
    if not isinstance(output, Tensor):
        raise MemberError(f"denoiser {name} returns a {type(output).__qualname__}, not a tensor of images")
    if output.shape != images.shape or not output.is_floating_point():
        raise MemberError(
            f"denoiser {name} makes {output.dtype} of shape {tuple(output.shape)} from images of shape "
            f"{tuple(images.shape)}; a denoiser must keep the shape and return floating-point pixels"
        )


@torch.inference_mode()
def check_classifier(classifier: nn.Module, images: Tensor, *, classes: int, name: str) -> None:
    """Raise MemberError unless the classifier maps images [N, C, H, W] to logits [N, classes]."""
    refuse_misfit(classifier, name=name, channels=images.shape[1])
    try:
        seen = tuple(classifier.eval()(images.clone()).shape)
    except Exception as error:  # whatever a foreign network raises
        raise MemberError(
            f"classifier {name} cannot take images of shape {tuple(images.shape)}: {reason(error)}"
        ) from error
    if seen != (len(images), classes):
        raise ClassCountError(f"classifier {name} gives logits of shape {seen}, not {(len(images), classes)}")
