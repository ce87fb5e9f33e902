"""The batch size of an ensemble is measured here on a clock that the networks move."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from smoothcert.engine import sizing
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.noise import Gaussian
from tests.support.engines import DEVICE

SHAPE = (1, 4, 4)


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def perf_counter(self) -> float:
        return self.seconds


class Device(nn.Module):
    """A network that takes as long for `full` rows as for fewer, and has no memory for more than `most`."""

    whole_batches = True

    def __init__(self, clock: Clock, full: int, most: int) -> None:
        super().__init__()
        self.clock, self.full, self.most = clock, full, most
        self.linear = nn.Linear(16, 3)

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > self.most:
            raise RuntimeError(f"can't allocate memory for {len(images)} rows")
        self.clock.seconds += max(1.0, len(images) / self.full)
        logits: Tensor = self.linear(images.flatten(1))
        return logits


def measured(monkeypatch: pytest.MonkeyPatch, full: int, most: int) -> Ensemble:
    clock = Clock()
    monkeypatch.setattr(sizing, "time", clock)
    torch.manual_seed(0)
    networks = [Device(clock, full, most).eval() for _ in range(2)]
    return sizing.loaded(
        lambda size: assemble(
            networks, classes="abc", input_shape=SHAPE, noise=Gaussian(0.25), batch=size, device=DEVICE
        )
    )


@pytest.mark.parametrize(
    ("full", "most", "rows"),
    [
        (100, 10**6, 256),
        (1024, 10**6, 1024),
        (1500, 10**6, 2048),  # 2,048 rows take 1.37 times as long as 1,024, which is still 1.46 times as fast
        (10**6, 10**6, 8192),
        (10**6, 700, 512),
        (10**6, 256, 256),
        (10**6, 100, 64),
        (10**6, 1, 1),
    ],
    ids=[
        *["already full", "full later", "not a power", "never full", "no memory", "no memory for twice"],
        *["no memory at first", "one at a time"],
    ],
)
def test_a_batch_grows_while_it_is_faster_and_fits(
    monkeypatch: pytest.MonkeyPatch, full: int, most: int, rows: int
) -> None:
    found = measured(monkeypatch, full, most)
    assert [member.form.shape[0] for member in found.members] == [rows, rows]


def test_a_device_without_memory_for_one_image_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="can't allocate memory for 1 rows"):
        measured(monkeypatch, 100, 0)


def test_another_error_than_missing_memory_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Ensemble, __: int) -> float:
        raise RuntimeError("device-side assert triggered")

    monkeypatch.setattr(sizing, "_rate", fail)
    with pytest.raises(RuntimeError, match="device-side assert"):
        measured(monkeypatch, 100, 1000)
