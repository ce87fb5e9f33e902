"""Augmentations of a batch for training: uint8 [N, C, H, W] to float32 [N, C, H, W] in [0, 1], channels-last."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def unchanged(pixels: Tensor) -> Tensor:
    """The images as they are."""
    return pixels.to(torch.float32).div_(255).contiguous(memory_format=torch.channels_last)


def crops_and_flips(pixels: Tensor) -> Tensor:
    """Random crops after padding by four pixels, half of them mirrored."""
    n, channels, height, width = pixels.shape
    padded = nn.functional.pad(pixels, (4, 4, 4, 4))
    device = pixels.device
    # Index arrays that broadcast to [N, C, H, W]: image, channel, row [N, 1, H, 1] and column [N, 1, 1, W] of each
    # pixel. A mirrored image reads its columns backwards.
    top = torch.randint(0, 9, (n, 1, 1), device=device)
    left = torch.randint(0, 9, (n, 1, 1), device=device)
    rows = (top + torch.arange(height, device=device).view(1, -1, 1)).unsqueeze(1)
    columns = left + torch.arange(width, device=device).view(1, 1, -1)
    mirrored = torch.rand(n, 1, 1, device=device) < 0.5
    columns = torch.where(mirrored, columns.flip(-1), columns).unsqueeze(1)
    each = torch.arange(n, device=device).view(-1, 1, 1, 1)
    channel = torch.arange(channels, device=device).view(1, -1, 1, 1)
    return unchanged(padded[each, channel, rows, columns])
