"""The time that the engine itself takes for a batch, with a network that does nothing and without noise.

It runs as a script, too, with the engine of another tree first on PYTHONPATH: so an earlier commit is measured by the
same statistic, in turns with this one. It uses nothing that an engine has not always had.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.run import Run
from smoothcert.noise import Gaussian
from smoothcert.procedures import Procedure
from smoothcert.procedures.protocol import draw
from smoothcert.verdict import Verdict

IMAGES, BATCH = 64, 1024
SHAPE = (1, 2, 5)
"""The shape of the images: ten values, so that a network that does nothing takes no time."""


class Null(nn.Module):
    """Takes the ten values of an image for logits."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)


def null_ensemble(device: str) -> Ensemble:
    """An ensemble whose forward pass takes no time."""
    return assemble([Null()], classes=tuple("0123456789"), input_shape=SHAPE, batch=BATCH, device=device, name="null")


def host_seconds(ensemble: Ensemble, batches: int) -> float:
    """The seconds of the processor for a batch, noise apart."""
    with mock.patch.object(Run, "sample", _nothing):
        return drive(ensemble, batches)[0]


def host_seconds_of(tree: Path, batches: int) -> float:
    """The same of the engine in another tree, in a process of its own."""
    child = subprocess.run(
        [sys.executable, "-P", __file__, str(batches)],
        env=os.environ | {"PYTHONPATH": str(tree.resolve())},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(child.stdout)


def drive(ensemble: Ensemble, batches: int, **device: Any) -> tuple[float, float, int]:
    """The seconds of the processor for a batch, the seconds on the clock, and the number of batches."""
    images = [torch.rand(SHAPE) for _ in range(2 * IMAGES)]

    def asking() -> Procedure:
        counts: Sequence[int] = ()
        for _ in range(batches):
            counts = yield from draw(BATCH // IMAGES)
        return Verdict(None, 0.0, None, batches, "exhausted", (), counts)

    several = 2 if device else 1  # with a queue, one half of the images waits for counts
    with Engine(ensemble, batch=BATCH, **device) as engine:
        began, clock = time.process_time(), time.perf_counter()
        noise = Gaussian(0.25)
        chosen = enumerate(images[: several * IMAGES])
        handles = [engine.submit(asking(), image, noise, "s", index=i) for i, image in chosen]
        for handle in handles:
            handle.result()
        done = engine.workload.batches
        return (time.process_time() - began) / done, time.perf_counter() - clock, done


def _nothing(run: Run, out: Tensor, start: int) -> None:
    """Stands for the noise, which is measured apart."""


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(host_seconds(null_ensemble("cpu"), int(sys.argv[1])))
