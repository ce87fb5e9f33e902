"""A diffusion model as a denoiser: the time step follows from the noise, and one step gives the clean image."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smoothcert.engine.diffusion import DiffusionDenoiser
from smoothcert.engine.errors import MemberError
from smoothcert.engine.smoothed import Smoothed
from smoothcert.engine.vision import torchvision
from smoothcert.noise import Gaussian, RoundedGaussian, Uniform
from smoothcert.verification import verify
from tests.support.smoothed import QUICK, images, patches

ALPHAS = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)
"""The products of the usual linear schedule."""
NOISE = Gaussian(0.25)


class Knowing(nn.Module):
    """A model that knows the clean image [0, 1], so that it can say what a perfect model would."""

    def __init__(self, clean: Tensor, prediction: str) -> None:
        super().__init__()
        self.clean, self.prediction = 2 * clean - 1, prediction
        self.steps: list[int] = []

    def forward(self, x: Tensor, step: int) -> Any:
        self.steps.append(step)
        alpha = ALPHAS[step]
        epsilon = (x - alpha.sqrt() * self.clean) / (1 - alpha).sqrt()
        found = {
            "epsilon": epsilon,
            "sample": self.clean.expand_as(x),
            "v_prediction": alpha.sqrt() * epsilon - (1 - alpha).sqrt() * self.clean,
        }[self.prediction]
        return SimpleNamespace(sample=torch.cat([found, torch.full_like(found, math.nan)], 1))  # and a variance


@pytest.mark.parametrize("prediction", ["epsilon", "sample", "v_prediction"])
def test_a_perfect_model_gives_the_clean_image(prediction: str) -> None:
    clean = torch.rand(3, 6, 6, generator=torch.Generator().manual_seed(1))
    noisy = NOISE.perturb(clean.expand(5, -1, -1, -1), torch.Generator().manual_seed(2))
    model = Knowing(clean, prediction)
    denoised = DiffusionDenoiser(model, ALPHAS, NOISE, prediction=prediction)(noisy)
    assert torch.allclose(denoised, clean.expand_as(noisy), atol=1e-4)
    assert len(model.steps) == 1


@pytest.mark.parametrize("sigma", [0.12, 0.25, 1.0])
def test_the_step_is_the_one_at_which_the_model_expects_this_noise(sigma: float) -> None:
    """The model's input has, relative to the image, the standard deviation that it expects at its step."""
    model = Knowing(torch.full((1, 32, 32), 0.5), "sample")
    seen: list[Tensor] = []
    model.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    noisy = Gaussian(sigma).perturb(torch.full((64, 1, 32, 32), 0.5), torch.Generator().manual_seed(3))
    DiffusionDenoiser(model, ALPHAS, Gaussian(sigma), prediction="sample")(noisy)
    expected = math.sqrt(1 - float(ALPHAS[model.steps[0]]))
    assert float(seen[0].std()) == pytest.approx(expected, rel=0.02)
    assert DiffusionDenoiser(model, ALPHAS, RoundedGaussian(sigma=sigma)).step == model.steps[0]


def test_what_cannot_be_denoised_in_one_step_is_refused() -> None:
    model = Knowing(torch.rand(3, 6, 6), "epsilon")
    with pytest.raises(MemberError, match=r"removes noise of standard deviations 0\.005 to 78\.7, .* got 0\.001"):
        DiffusionDenoiser(model, ALPHAS, Gaussian(0.001))
    with pytest.raises(MemberError, match="a diffusion model denoises Gaussian noise, got uniform"):
        DiffusionDenoiser(model, ALPHAS, Uniform(reach=0.5))
    with pytest.raises(MemberError, match="prediction must be one of epsilon, sample, v_prediction; got 'score'"):
        DiffusionDenoiser(model, ALPHAS, NOISE, prediction="score")
    with pytest.raises(MemberError, match=r"a diffusion model must be a torch\.nn\.Module, got str"):
        DiffusionDenoiser("ddpm", ALPHAS, NOISE)  # type: ignore[arg-type]
    with pytest.raises(MemberError, match="the scheduler SimpleNamespace has no tensor alphas_cumprod"):
        DiffusionDenoiser.of(model, SimpleNamespace(), NOISE)


def test_a_unet_of_diffusers_is_certified() -> None:
    """The same seed gives the same counts twice, because one step draws no random numbers."""
    torchvision()  # diffusers imports it, which fails with a torch for CPUs unless this was called
    import diffusers

    torch.manual_seed(0)
    unet = diffusers.UNet2DModel(
        sample_size=8,
        block_out_channels=(4, 8),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
        add_attention=False,
    ).eval()
    scheduler = diffusers.DDPMScheduler(num_train_timesteps=1000)
    assert torch.allclose(scheduler.alphas_cumprod, ALPHAS)
    denoiser = DiffusionDenoiser.of(unet, scheduler, NOISE).eval()
    found = []
    for _ in range(2):
        with Smoothed(patches(), NOISE, denoiser=denoiser) as smoothed:
            (certificate,) = smoothed.certify(torch.stack(images(1)), 0.1, procedure=QUICK, seed="diffusion")
        assert verify(certificate)
        found.append([stage.counts for stage in certificate.stages])
    assert found[0] == found[1]
