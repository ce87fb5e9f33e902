"""DnCNN (Zhang et al., 2017): a denoiser that predicts the noise and subtracts it.

    dncnn-17x128, dncnn-17x64            17 layers at full resolution, meant for GPUs; the paper uses the wider one
    dncnn-half-8x48, dncnn-half-8x64     8 layers at half resolution, for CPUs

At half resolution every 2 x 2 block of pixels becomes four times as many channels, so a layer costs a quarter and sees
twice as far. Height and width of the images must then be even.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pixel_shuffle, pixel_unshuffle


class DnCNN(nn.Module):
    """Maps noisy images [N, channels, H, W] to denoised ones of the same shape, without clipping.

    `shrink` is the size of the blocks of pixels that become channels. The last layer begins at zero, so an untrained
    network returns its input.
    """

    def __init__(self, depth: int, width: int, channels: int = 3, *, shrink: int = 1) -> None:
        super().__init__()
        self.shrink = shrink
        outer = channels * shrink**2
        layers: list[nn.Module] = [nn.Conv2d(outer, width, 3, padding=1), nn.ReLU(inplace=True)]
        for _ in range(depth - 2):
            layers.append(nn.Conv2d(width, width, 3, padding=1, bias=False))
            layers += [nn.BatchNorm2d(width, eps=1e-4), nn.ReLU(inplace=True)]
        last = nn.Conv2d(width, outer, 3, padding=1, bias=False)
        self.layers = nn.Sequential(*layers, last)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                _carry_pixels(module.weight)
        nn.init.zeros_(last.weight)

    def forward(self, x: Tensor) -> Tensor:
        if self.shrink == 1:
            denoised: Tensor = x - self.layers(x)
            return denoised
        return x - pixel_shuffle(self.layers(pixel_unshuffle(x, self.shrink)), self.shrink)


@torch.no_grad()
def _carry_pixels(weight: Tensor) -> None:
    """Orthogonal weights, mostly in the centre of the kernel (after the delta-orthogonal weights of Xiao et al., 2018).

    The noise of a pixel must get through all layers before the last one can find it. With weights that are spread
    over the kernel, the network first has to learn that.
    """
    nn.init.orthogonal_(weight).mul_(0.1)
    weight[:, :, 1, 1] += nn.init.orthogonal_(torch.empty(weight.shape[:2]))
