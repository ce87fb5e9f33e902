"""The packages of the images are locked, each with its pinned version and its hashes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.lock.requirements import BROUGHT, BUILDS, OLDER
from tests.attack.test_dependencies import brought, pins
from tests.support.api import ROOT

LOCK = ROOT / "deploy" / "lock"
TOOL = """#!/bin/sh
# Stands for python and for cyclonedx-py: makes the environment of the tool, installs nothing, and writes the file of
# requirements that it is given to where the bill of materials belongs.
case "$*" in
*venv*) mkdir -p .lock/bin && cp "$0" .lock/bin/python && cp "$0" .lock/bin/cyclonedx-py ;;
requirements*) while [ "$1" != --output-file ]; do shift; done && cp "$3" "$2" ;;
esac
"""


def locked(image: str) -> dict[str, tuple[str, int]]:
    """The version of each package of an image, and the number of its hashes."""
    return packages((LOCK / f"{image}.txt").read_text())


def packages(text: str) -> dict[str, tuple[str, int]]:
    """The version of each package in a file of requirements, and the number of its hashes."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
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
    """Builds for CUDA need further packages, which the build for CPUs names with a marker or not at all."""
    names = {canonicalize_name(Requirement(each).name) for each in requires("torch") or () if ";" not in each}
    conditional = {"setuptools"}  # it is needed from Python 3.12 on, and pinned in any case
    assert names | conditional == set(BROUGHT)
    assert set(BROUGHT) <= set(locked("worker"))
    assert not BUILDS & {*locked("worker"), *locked("api")}
    vision = {canonicalize_name(Requirement(each).name) for each in requires("torchvision") or () if ";" not in each}
    assert vision - BUILDS <= set(locked("worker"))


def test_a_bill_of_materials_has_all_packages_of_an_image_and_torch_where_it_is(tmp_path: Path) -> None:
    """The real tool comes from the package index, so a script that prints its arguments stands in for it."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(LOCK, tmp_path / "deploy" / "lock")
    tool = tmp_path / "tool"
    tool.write_text(TOOL)
    tool.chmod(0o755)
    subprocess.run(["make", "--silent", "sbom", f"PYTHON={tool}"], cwd=tmp_path, check=True)
    for image, beside in (("api", set()), ("worker", BUILDS)):
        found, pinned = packages((tmp_path / "dist" / f"sbom-{image}.json").read_text()), pins()
        assert set(found) == {*locked(image), *beside}
        assert {name: version for name, (version, _) in found.items()} == {name: pinned[name] for name in found}
    assert (tmp_path / "deploy" / "lock" / "worker.txt").read_bytes() == (LOCK / "worker.txt").read_bytes()
