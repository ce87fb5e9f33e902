"""The CIFAR ResNets of the paper: ResNet20 and ResNet110 (He et al., 2016).

Three groups of basic blocks at 16, 32 and 64 channels; where the shape changes, the shortcut is a 1x1 convolution.
The normalisation is a layer of the network, so that noise is always added to pixels in [0, 1].
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from smoothcert.engine.normalisation import Normalise

CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)
"""The mean of each channel of CIFAR-10, of pixels in [0, 1]."""
CIFAR10_STD = (0.2023, 0.1994, 0.2010)
"""The standard deviation of each channel in the customary form: the mean over images of that within an image."""


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        """[N, channels_in, H, W] to [N, channels, H / stride, W / stride]."""
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class CifarResNet(nn.Module):
    """A ResNet of 6 * blocks + 2 layers for 32 x 32 images; maps [N, 3, 32, 32] in [0, 1] to logits [N, classes]."""

    def __init__(
        self,
        blocks: int,
        classes: int = 10,
        mean: tuple[float, ...] = CIFAR10_MEAN,
        std: tuple[float, ...] = CIFAR10_STD,
    ) -> None:
        super().__init__()
        self.normalise = Normalise(mean, std)
        self.conv = nn.Conv2d(len(mean), 16, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        self.group1 = self._group(16, 16, blocks, stride=1)
        self.group2 = self._group(16, 32, blocks, stride=2)
        self.group3 = self._group(32, 64, blocks, stride=2)
        self.fc = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fan_out = module.kernel_size[0] * module.kernel_size[1] * module.out_channels
                nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / fan_out))

    @staticmethod
    def _group(channels_in: int, channels: int, blocks: int, *, stride: int) -> nn.Sequential:
        first = BasicBlock(channels_in, channels, stride)
        return nn.Sequential(first, *(BasicBlock(channels, channels, 1) for _ in range(blocks - 1)))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn(self.conv(self.normalise(x))))
        y = self.group3(self.group2(self.group1(y)))
        logits: Tensor = self.fc(y.mean(dim=(2, 3)))
        return logits


def resnet20(classes: int = 10) -> CifarResNet:
    """272,474 parameters for ten classes."""
    return CifarResNet(3, classes)


def resnet110(classes: int = 10) -> CifarResNet:
    """1,730,714 parameters for ten classes."""
    return CifarResNet(18, classes)
