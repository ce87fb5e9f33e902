"""The size of a batch follows from the size of the images."""

from __future__ import annotations

import pytest
import torch

from smoothcert.engine.memory import CPU_BYTES, DEVICE_BYTES, LEAST, fitting_batch

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("shape", "device", "rows"),
    [
        ((3, 32, 32), CPU, 256),
        ((3, 64, 64), CPU, 256),
        ((3, 224, 224), CPU, 32),
        ((3, 224, 224), GPU, 256),
        ((3, 2048, 2048), CPU, 8),
        ((3, 2048, 2048), GPU, 16),
    ],
)
def test_a_batch_has_as_many_images_as_fit(shape: tuple[int, int, int], device: torch.device, rows: int) -> None:
    assert fitting_batch(256, shape, device) == rows
    image, most = 4 * shape[0] * shape[1] * shape[2], CPU_BYTES if device == CPU else DEVICE_BYTES
    assert rows == LEAST or rows * image <= most


def test_a_smaller_batch_that_was_asked_for_stays() -> None:
    assert fitting_batch(3, (3, 224, 224), CPU) == 3
