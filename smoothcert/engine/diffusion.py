"""A diffusion model as denoiser: one step, from the noise level of the images to the clean image.

Carlini et al. (2023): an image under Gaussian noise is, up to a factor, what a diffusion model expects at the time
step whose noise level is the same. The model's estimate of the clean image from there is a denoised image. One step
draws no random numbers, so the denoiser is a function of the noisy image, and a certificate can be replayed.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.engine.errors import MemberError
from smoothcert.engine.form import placed
from smoothcert.noise import Gaussian, Noise, RoundedGaussian

PREDICTIONS = ("epsilon", "sample", "v_prediction")
"""What a diffusion model may return: the noise, the clean image, or their mix `v` (Salimans and Ho, 2022)."""


class DiffusionDenoiser(nn.Module):
    """Maps images [N, C, H, W] of [0, 1] under Gaussian noise to denoised images in [0, 1].

    `unet(x, t)` is called as the UNets of diffusers are, with images of [-1, 1] and a time step, and returns a tensor
    or an object with the tensor `.sample`. Where it has 2 C channels, the others are a variance and are not used.
    `alphas` [T] are the products of the scheduler (`alphas_cumprod`): at step t the model expects
    sqrt(alphas[t]) x + sqrt(1 - alphas[t]) e with standard normal e.
    """

    def __init__(self, unet: nn.Module, alphas: Tensor, noise: Noise, *, prediction: str = "epsilon") -> None:
        super().__init__()
        if not isinstance(unet, nn.Module):
            raise MemberError(f"a diffusion model must be a torch.nn.Module, got {type(unet).__qualname__}")
        if prediction not in PREDICTIONS:
            raise MemberError(f"prediction must be one of {', '.join(PREDICTIONS)}; got {prediction!r}")
        self.unet, self.prediction = unet, prediction
        self.step = _step(alphas, noise)
        self.kept = math.sqrt(float(alphas[self.step]))
        self.added = math.sqrt(1 - float(alphas[self.step]))

    @classmethod
    def of(cls, unet: nn.Module, scheduler: Any, noise: Noise) -> DiffusionDenoiser:
        """A UNet of diffusers with its scheduler, which says at which steps there is how much noise."""
        alphas = getattr(scheduler, "alphas_cumprod", None)
        if not isinstance(alphas, Tensor):
            raise MemberError(
                f"the scheduler {type(scheduler).__qualname__} has no tensor alphas_cumprod; DDPMScheduler and "
                f"DDIMScheduler have one"
            )
        return cls(unet, alphas, noise, prediction=scheduler.config.prediction_type)

    def forward(self, x: Tensor) -> Tensor:
        noisy = self.kept * (2 * x - 1)
        output = self.unet(noisy, self.step)
        found: Tensor = (output if isinstance(output, Tensor) else output.sample)[:, : x.shape[1]]
        if self.prediction == "epsilon":
            clean = (noisy - self.added * found) / self.kept
        elif self.prediction == "v_prediction":
            clean = self.kept * noisy - self.added * found
        else:
            clean = found
        return (clean / 2 + 0.5).clamp(0, 1)

    def optimised(self, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, str]:
        """A copy as it is: UNets have no batch norm to fold, and the code of diffusers cannot be traced."""
        return placed(copy.deepcopy(self), device, dtype), "as given"


def _step(alphas: Tensor, noise: Noise) -> int:
    """The time step whose noise level, relative to the image, is nearest to that of the noise."""
    if not isinstance(noise, Gaussian | RoundedGaussian):
        raise MemberError(f"a diffusion model denoises Gaussian noise, got {noise.label}")
    levels = ((1 - alphas.double()) / alphas.double()).sqrt() / 2  # of images in [0, 1], half as wide as [-1, 1]
    if not levels[0] <= noise.sigma <= levels[-1]:
        raise MemberError(
            f"the diffusion model removes noise of standard deviations {levels[0]:.3g} to {levels[-1]:.3g}, in pixels "
            f"of [0, 1]; got {noise.sigma}"
        )
    return int((levels - noise.sigma).abs().argmin())
