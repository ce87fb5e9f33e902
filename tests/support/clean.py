"""A clean environment: an interpreter that sees only some of the packages that are installed here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


class CleanEnvironment:
    """A new virtual environment. Its packages are linked from this one, which takes no download.

    `install` runs pip without an index, so it fails if a wheel needs a package that was not provided, or another
    version than the constraints allow.
    """

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        (self._packages,) = (folder / "venv").glob("lib/python*/site-packages")

    def provide(self, *names: str) -> None:
        """Link these packages and everything that they need."""
        for found in needed(names).values():
            for top in {Path(file).parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
                target = self._packages / top
                if not target.is_symlink():
                    target.symlink_to(Path(str(found.locate_file(top))).resolve())

    def install(self, *what: str) -> None:
        constraints = ("--constraint", str(ROOT / "constraints.txt"))
        command = ["--python", str(self.python), "install", "--no-index", "--no-compile", *constraints, *what]
        done = subprocess.run([sys.executable, "-I", "-m", "pip", *command, "--quiet"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def ran(self, script: str) -> str:
        """What a script prints, far from our tree."""
        done = subprocess.run([self.python, "-I", "-c", script], capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command `smoothcert`, which must be installed."""
        path = self.python.with_name("smoothcert")
        return subprocess.run([path, *words], capture_output=True, text=True, cwd=self.folder)


def needed(names: Iterable[str]) -> dict[str, Distribution]:
    """The distributions of these names and of everything that they require here, by their names."""
    found: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = distribution(name)
            waiting += requirements(found[name])
    return found


def requirements(found: Distribution) -> Iterator[str]:
    for text in found.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name
