"""Precisions, and whether a device survives them.

Some processors announce bfloat16 and then end the process with an illegal instruction in the middle of a kernel, which
no exception handler can catch. So a precision other than float32 is first tried in a child process. On such a
processor, the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 may help; the child inherits it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn

from smoothcert.engine.errors import PrecisionError

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""The dtypes in which members can run, by name."""
PROBE_SECONDS = 120
"""The seconds that a trial may take; importing torch on a busy machine takes most of them."""


def dtype_of(precision: str) -> torch.dtype:
    """The dtype of this name; PrecisionError where there is none."""
    if precision not in PRECISIONS:
        raise PrecisionError(f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}")
    return PRECISIONS[precision]


@cache
def require(precision: str, device: str = "cpu") -> torch.dtype:
    """The dtype of this name, once a child process has survived it on this device (tried once per process)."""
    dtype = dtype_of(precision)
    if dtype is not torch.float32:
        probe([sys.executable, "-m", "smoothcert.engine.precision", precision, device], f"{precision} on {device}")
    return dtype


def probe(command: Sequence[str], what: str) -> None:
    """Run a child process; PrecisionError says how it ended unless it succeeded."""
    root = str(Path(__file__).parents[2])  # the folder from which the child can import smoothcert
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    try:
        child = subprocess.run(  # noqa: S603  this module, by this interpreter
            command,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise PrecisionError(f"{what}: the trial took more than {PROBE_SECONDS} s") from error
    if child.returncode < 0:
        raise PrecisionError(f"{what}: the trial was killed by {signal.Signals(-child.returncode).name}")
    if child.returncode:
        last = (child.stderr.strip().splitlines() or ["no message"])[-1]
        raise PrecisionError(f"{what}: the trial ended with exit code {child.returncode}: {last}")


def exercise(precision: str, device: str) -> None:
    """Run the kernels of a network in this precision: convolutions in both layouts, batch norm, a linear layer."""
    channels = (3, 16, 32, 64)  # those of ResNet20
    layers: list[nn.Module] = []
    for inner, outer in pairwise(channels):
        layers += [nn.Conv2d(inner, outer, 3, stride=1 + (inner > 3), padding=1, bias=False), nn.BatchNorm2d(outer)]
        layers += [nn.ReLU(), nn.Conv2d(outer, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], 10)]
    network = nn.Sequential(*layers, *head).eval().to(device, dtype_of(precision))
    with torch.inference_mode():
        for layout in (torch.contiguous_format, torch.channels_last):
            for rows in (64, 8):
                images = torch.rand(rows, 3, 32, 32, device=device).to(dtype_of(precision))
                network.to(memory_format=layout)  # type: ignore[call-overload]
                logits = network(images.contiguous(memory_format=layout))
                if not logits.isfinite().all().item():
                    raise PrecisionError(f"{precision} on {device} gives logits that are not finite")


if __name__ == "__main__":
    exercise(*sys.argv[1:])
