"""Every installed package has its pinned version, also those that only another package needs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.api import ROOT


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().split()
    found = dict(line.split("==") for line in lines)
    assert len(found) == len(lines)
    return {canonicalize_name(name): version for name, version in found.items()}


def declared() -> Iterator[str]:
    """Everything that pyproject.toml names."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"].values()
    yield from project["project"]["dependencies"]
    yield from (each for extra in project["project"]["optional-dependencies"].values() for each in extra)
    yield from (each for group in groups for each in group if isinstance(each, str))


def brought(requirements: Iterable[str]) -> dict[str, str]:
    """Every installed package that these need, directly or not, with its version."""
    found: dict[str, str] = {}
    left = [(Requirement(each), "") for each in requirements]
    while left:
        requirement, extra = left.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        try:
            installed = distribution(name)
        except PackageNotFoundError:  # it belongs to a group that is not installed
            continue
        if name not in found or requirement.extras:
            found[name] = installed.version.partition("+")[0]  # a build for CPUs has the same version
            needs = [Requirement(each) for each in installed.requires or ()]
            left += [(need, each) for need in needs for each in ("", *requirement.extras)]
    return found


def test_every_package_that_is_installed_is_pinned_to_its_version() -> None:
    installed, pinned = brought(declared()), pins()
    assert len(installed) > 50
    assert {name: version for name, version in installed.items() if pinned.get(name) != version} == {}


def test_every_package_that_is_named_is_pinned() -> None:
    named = {canonicalize_name(Requirement(each).name) for each in declared()}
    assert named - set(pins()) == set()


def test_what_is_installed_is_installed_under_the_pins() -> None:
    makefile = (ROOT / "Makefile").read_text()
    installing = [line for line in makefile.splitlines() if re.search(r"pip install", line)]
    assert installing
    assert all("--constraint constraints.txt" in line or "pip-audit" in line for line in installing)
