"""Print what pyproject.toml names for groups, one requirement a line: the package's own dependencies, then the groups'.

python deploy/lock/requirements.py api traces
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BUILDS = {"torch", "torchvision"}
"""Packages of which there are several builds, for CPUs and for versions of CUDA. The build of the image chooses
one, so the lock cannot have the hash of any of them."""
BROUGHT = ("filelock", "fsspec", "jinja2", "networkx", "setuptools", "sympy", "typing-extensions")
"""The packages that every build of torch brings along; the builds for CUDA bring further ones."""
OLDER = ("async-timeout",)
"""What redis brings along before Python 3.11.3; the lock is made on a later one, and is for all of 3.11."""

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def requirements(group: str) -> Iterator[str]:
    for each in PROJECT["dependency-groups"][group]:
        if isinstance(each, dict):
            yield from requirements(each["include-group"])
        else:
            yield each


if __name__ == "__main__":
    named = [*PROJECT["project"]["dependencies"], *(each for group in sys.argv[1:] for each in requirements(group))]
    named += OLDER
    print(*sorted(set(named) - BUILDS | set(BROUGHT if BUILDS & set(named) else ())), sep="\n")
