"""A classifier behind a denoiser: noisy pixels, then the denoiser, then the normalisation and the classifier.

For certificates such a chain is one base classifier (denoised smoothing; Salman et al., 2020).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smoothcert.engine.errors import MemberError, reason


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
        from smoothcert.engine.form import optimised

        stages = [optimised(stage, device, dtype) for stage in (self.denoiser, self.classifier)]
        kinds = [kind for _, kind in stages]
        return nn.Sequential(*(network for network, _ in stages)), kinds[0] if kinds[0] == kinds[1] else "mixed"


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
        from smoothcert.engine.form import optimised

        if (device, dtype) not in self._forms:
            self._forms[device, dtype] = optimised(self.network, device, dtype)
        return self._forms[device, dtype]


@torch.inference_mode()
def check_denoiser(denoiser: nn.Module, images: Tensor, *, name: str) -> None:
    """Raise MemberError unless the denoiser maps images [N, C, H, W] to floating-point images of the same shape."""
    was_training = denoiser.training
    try:
        output = denoiser.eval()(images)
    except Exception as error:  # whatever a foreign network raises
        raise MemberError(
            f"denoiser {name} cannot take images of shape {tuple(images.shape)}: {reason(error)}"
        ) from error
    finally:
        denoiser.train(was_training)
    if not isinstance(output, Tensor):
        raise MemberError(f"denoiser {name} returns a {type(output).__qualname__}, not a tensor of images")
    if output.shape != images.shape or not output.is_floating_point():
        raise MemberError(
            f"denoiser {name} makes {output.dtype} of shape {tuple(output.shape)} from images of shape "
            f"{tuple(images.shape)}; a denoiser must keep the shape and return floating-point pixels"
        )
