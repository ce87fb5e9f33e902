"""An ensemble in the shape of ImageNet: three torchvision ResNet50 with random weights, 1,000 classes, 224 x 224."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from PIL import Image

from models.addition import Addition, add
from models.architectures import build
from smoothcert.engine.normalisation import Normalisation
from smoothcert.noise import Gaussian

NAME, CLASSES, SHAPE = "imagenet-shape", 1000, (3, 224, 224)
PARAMETERS = 25_557_032
SOURCE = (500, 375)
"""The width and height of the image, which the networks do not take as it is."""
ARCHITECTURE = "torchvision/resnet50"


def large_zoo(zoo: Path) -> Path:
    """A zoo with this ensemble alone."""
    files = []
    for seed in range(3):
        torch.manual_seed(seed)
        network = build(ARCHITECTURE, classes=CLASSES)
        assert sum(each.numel() for each in network.parameters()) == PARAMETERS
        files.append(zoo.parent / f"resnet50-{seed}.safetensors")
        safetensors.torch.save_file(network.state_dict(), files[-1])
    addition = Addition(
        classes=tuple(f"class-{i:03}" for i in range(CLASSES)),
        input_shape=SHAPE,
        architecture=ARCHITECTURE,
        noise=Gaussian(0.25),
        normalisation=Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    )
    add(NAME, files, addition, zoo=zoo)
    for file in files:
        file.unlink()
    return zoo


def photograph() -> bytes:
    """A PNG file of 500 x 375 pixels: hills of colour."""
    width, height = SOURCE
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    waves = [np.sin(9 * x + 5 * y), np.cos(7 * x * y + 2), np.sin(4 * y - 8 * x * x)]
    pixels = np.stack([(127.5 + 120 * each).astype(np.uint8) for each in waves], -1)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def peak_mb(pid: int) -> float:
    """The most memory that a process has had so far, in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6
