"""The time that the engine itself takes for a batch, and how much of a device's time it leaves unused."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.machine.hosttime import BATCH, IMAGES, SHAPE, drive, host_seconds, host_seconds_of, null_ensemble
from benchmarks.result import Figure, Result
from smoothcert.engine.device import ClassIndices, Device, device_of
from smoothcert.engine.sampling import NoisyImage
from smoothcert.noise import Gaussian, Noise, RoundedGaussian

CIFAR = (3, 32, 32)
ROUNDS = 5
"""The rounds of a measurement; the best counts, since other work only adds time."""
HERE = Path(__file__).parents[2]
BEFORE, GAIN = "267e33b", 3.0
"""The last commit that waited for each batch before it filled the next, and the times less that the host is to take."""
FORWARD_S = 0.02
"""The seconds that a forward pass takes on the stub of a device."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batches", type=int, default=400, help="batches of each round")
    parser.add_argument("--device", default="cpu", help="cpu, cuda:0, ...")
    parser.add_argument("--before", type=Path, metavar="TREE", help=f"also an earlier tree, such as that of {BEFORE}")


def run(options: argparse.Namespace) -> Result:
    torch.set_num_threads(1)
    ensemble = null_ensemble(options.device)
    host = min(host_seconds(ensemble, options.batches) for _ in range(ROUNDS))
    stub = Stub(device_of(ensemble.device))
    noise_ms = {
        noise: 1000 * noise_seconds(noise, ensemble.device) for noise in (Gaussian(0.25), RoundedGaussian(0.25))
    }
    batches = options.batches // 8
    _, wall, done = drive(ensemble, batches, device=stub)
    overlap = done * FORWARD_S / wall
    earlier = compared(options.before, options.batches) if options.before else None
    return Result(
        name="feed",
        compares=f"the engine's own time with a network that does nothing; batches of {BATCH} from {IMAGES} images",
        columns=("what", "measured"),
        rows=[
            ("microseconds of the processor for a batch, noise apart", round(1e6 * host)),
            ("microseconds of the processor for a sample, noise apart", round(1e6 * host / BATCH, 2)),
            (f"batches on a stub whose forward pass takes {1000 * FORWARD_S:.0f} ms", done),
            ("synchronisations with the stub", stub.synchronisations),
            ("seconds with the stub, noise included", round(wall, 3)),
            ("seconds if the stub were never without work", round(done * FORWARD_S, 3)),
            *(
                (
                    f"milliseconds of the processor for the noise of {BATCH:,} CIFAR images, {noise.name}",
                    round(taken, 1),
                )
                for noise, taken in noise_ms.items()
            ),
            *(
                (f"microseconds of the processor for a batch, {which}, in a process of its own", round(1e6 * seconds))
                for which, seconds in zip(("before", "now"), earlier or (), strict=False)
            ),
        ],
        figures=[
            Figure("milliseconds for a batch of 1,024, noise apart", 1000 * host, at_most=1.0),
            Figure("synchronisations for a batch", stub.synchronisations / done, at_most=1.0),
            Figure("share of the time in which the device works", overlap, at_least=0.9),
            *(
                [Figure("host time for a batch, before / now", earlier[0] / earlier[1], at_least=GAIN)]
                if earlier
                else []
            ),
        ],
        notes=(
            f"Every image asks for {BATCH // IMAGES} samples at a time. The stub works on its own clock, as a GPU.",
            f"The share of the time in which the device works holds for images of {math.prod(SHAPE)} values, whose "
            "noise takes the host hardly any time. The integers of rounded-gaussian, the noise of 8-bit images, are "
            "drawn by the host on every device, so that a replay elsewhere gives the same ones. A GPU that computes a "
            "batch faster than the host draws its noise waits for the noise.",
        ),
    )


class Stub:
    """A device whose work takes FORWARD_S a batch, one after the other, while the host goes on."""

    depth = 2

    def __init__(self, real: Device) -> None:
        self.synchronisations = 0
        self.place = real.place
        self._real, self._free_at = real, 0.0

    def fetch(self, classes: Tensor) -> StubTransfer:
        self._free_at = max(self._free_at, time.perf_counter()) + FORWARD_S
        return StubTransfer(self, self._real.fetch(classes).classes(), self._free_at)


class StubTransfer:
    """Classes that are there at a given time."""

    def __init__(self, stub: Stub, classes: ClassIndices, at: float) -> None:
        self._stub, self._classes, self._at = stub, classes, at

    def classes(self) -> ClassIndices:
        self._stub.synchronisations += 1
        time.sleep(max(0.0, self._at - time.perf_counter()))
        return self._classes


def compared(before: Path, batches: int) -> tuple[float, float]:
    """The seconds of the processor for a batch of an earlier tree and of this one, which take turns."""
    rounds = [[host_seconds_of(tree, batches) for tree in (before, HERE)] for _ in range(ROUNDS)]
    earlier, now = map(min, zip(*rounds, strict=True))
    return earlier, now


def noise_seconds(noise: Noise, device: torch.device) -> float:
    """The seconds of the processor for the noise of a batch of CIFAR images."""
    image = torch.randint(0, 256, CIFAR, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    noisy, out = NoisyImage(noise, image.to(device), "s", 0), torch.empty(BATCH, *CIFAR, device=device)
    taken = []
    for turn in range(ROUNDS + 1):  # the first builds tables
        began = time.process_time()
        noisy.sample(out, turn * BATCH)
        taken.append(time.process_time() - began)
    return min(taken[1:])
