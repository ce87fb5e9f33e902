"""Several copies of a batch under Gaussian noise, as one batch."""

from __future__ import annotations

import torch
from torch import Tensor


def gaussian_like(x: Tensor, sigma: float, copies: int) -> Tensor:
    """Gaussian noise for `copies` copies of x [N, ...], as one batch [copies * N, ...]."""
    return sigma * torch.randn((copies * len(x), *x.shape[1:]), device=x.device)


def noisy_copies(x: Tensor, sigma: float, copies: int) -> Tensor:
    """[copies * N, ...]: all images under one draw of Gaussian noise, then all under the next."""
    return x.repeat(copies, 1, 1, 1) + gaussian_like(x, sigma, copies)


def per_image(outputs: Tensor, copies: int) -> Tensor:
    """[copies * N, classes] as [copies, N, classes]."""
    return outputs.view(copies, -1, outputs.shape[-1])
