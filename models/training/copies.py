"""Several noisy copies of a batch, as one batch."""

from __future__ import annotations

import torch
from torch import Tensor


def noise_like(x: Tensor, sigma: float, copies: int) -> Tensor:
    """Noise for `copies` copies of x [N, ...], as one batch [copies * N, ...]."""
    return sigma * torch.randn((copies * len(x), *x.shape[1:]), device=x.device)


def noisy_copies(x: Tensor, sigma: float, copies: int) -> Tensor:
    """[copies * N, ...]: all images under one draw of noise, then all under the next."""
    return x.repeat(copies, 1, 1, 1) + noise_like(x, sigma, copies)


def per_image(outputs: Tensor, copies: int) -> Tensor:
    """[copies * N, classes] as [copies, N, classes]."""
    return outputs.view(copies, -1, outputs.shape[-1])
