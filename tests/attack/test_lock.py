"""The packages of the images are locked: each with its pinned version and its hashes."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.lock.requirements import BROUGHT, BUILDS, OLDER
from tests.attack.test_dependencies import brought, pins
from tests.support.api import ROOT

LOCK = ROOT / "deploy" / "lock"


def locked(image: str) -> dict[str, tuple[str, int]]:
    """The version of each package of an image, and the number of its hashes."""
    lines = [line for line in (LOCK / f"{image}.txt").read_text().splitlines() if line and not line.startswith("#")]
    entries = re.split(r"(?<!\\)\n", "\n".join(lines))
    found = {}
    for entry in entries:
        name, version = entry.split()[0].split("==")
        found[canonicalize_name(name)] = (version, len(re.findall(r"--hash=sha256:[0-9a-f]{64}", entry)))
    return found


def needed(image: str) -> list[str]:
    command = [sys.executable, str(LOCK / "requirements.py"), image, "traces"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[:-1]


@pytest.mark.parametrize("image", ["api", "worker"])
def test_everything_that_an_image_needs_is_locked_with_hashes_at_its_pinned_version(image: str) -> None:
    found, pinned = locked(image), pins()
    assert set(found) == {*brought(needed(image)), *OLDER}, "run `make lock`"
    assert {name: version for name, (version, _) in found.items()} == {name: pinned[name] for name in found}
    assert all(hashes for _, hashes in found.values())


def test_what_torch_brings_along_is_locked_and_torch_is_not() -> None:
    """Builds for CUDA bring further packages, which are named with a marker or not at all in the build for CPUs."""
    names = {canonicalize_name(Requirement(each).name) for each in requires("torch") or () if ";" not in each}
    conditional = {"setuptools"}  # from Python 3.12 on, and pinned all the same
    assert names | conditional == set(BROUGHT)
    assert set(BROUGHT) <= set(locked("worker"))
    assert not BUILDS & {*locked("worker"), *locked("api")}
    vision = {canonicalize_name(Requirement(each).name) for each in requires("torchvision") or () if ";" not in each}
    assert vision - BUILDS <= set(locked("worker"))
