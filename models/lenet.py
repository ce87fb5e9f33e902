"""The network of Lee et al. (2019) for MNIST: two convolutions and two fully connected layers, after LeNet."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from smoothcert.engine.normalisation import Normalise


class MnistLeNet(nn.Module):
    """Maps [N, 1, 28, 28] in [0, 1] to logits [N, classes]; 431,080 parameters for ten classes.

    Each convolution is followed by ReLU and pooling, the second also by dropout of whole channels in training.
    """

    def __init__(self, classes: int = 10, mean: tuple[float, ...] = (0.5,), std: tuple[float, ...] = (0.5,)) -> None:
        super().__init__()
        self.normalise = Normalise(mean, std)
        self.conv1 = nn.Conv2d(len(mean), 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.dropout = nn.Dropout2d(0.5)
        self.fc1 = nn.Linear(50 * 4 * 4, 500)
        self.fc2 = nn.Linear(500, classes)

    def forward(self, x: Tensor) -> Tensor:
        # ReLU and dropout scale a channel by a number >= 0, so they commute with pooling and cost a quarter behind it.
        y = torch.relu(max_pool2d(self.conv1(self.normalise(x)), 2))
        y = self.dropout(torch.relu(max_pool2d(self.conv2(y), 2)))
        logits: Tensor = self.fc2(torch.relu(self.fc1(y.flatten(1))))
        return logits
