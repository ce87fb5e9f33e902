"""Memory that a layer frees is kept for the next one, unless the user has tuned the allocator."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from smoothcert.engine import allocator

FAULTS = """
import resource, torch
from smoothcert.engine.form import prepare
torch.set_num_threads(1)
layers = [torch.nn.Conv2d(3, 16, 3, padding=1)]
for _ in range(4):
    layers += [torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3, padding=1)]
network = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
form = prepare(network, name="m", classes=16, input_shape=(3, 32, 32), batch=64)
images = torch.rand(64, 3, 32, 32)
for _ in range(3):
    form(images)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    form(images)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 10)
"""
"""A script that prints the page faults of a forward pass, whose layers take 4 MB each."""


def faults(**environment: str) -> int:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    child = subprocess.run(
        [sys.executable, "-c", FAULTS], env=plain | environment, capture_output=True, text=True, check=True
    )
    return int(child.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator is not glibc's")
def test_a_forward_pass_asks_the_system_for_no_memory_again() -> None:
    assert faults() < 100
    assert faults(GLIBC_TUNABLES="glibc.malloc.trim_threshold=131072") > 1000


@pytest.mark.parametrize(
    ("name", "value"), [("MALLOC_TRIM_THRESHOLD_", "1"), ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=1")]
)
def test_what_the_user_has_tuned_stays(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _: pytest.fail("the allocator was told something"))
    monkeypatch.setenv(name, value)
    assert not allocator.settle.__wrapped__()


def test_another_allocator_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _: object())
    assert not allocator.settle.__wrapped__()
