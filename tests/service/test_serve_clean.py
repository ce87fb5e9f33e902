"""What `make serve` installs is enough for serving: no development tool is needed."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import httpx2
from packaging.requirements import Requirement

from app import samples
from tests.support.clean import ROOT, CleanEnvironment
from tests.support.serving import Serving

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ENSEMBLE = "mnist-lenet-replacement-0.8"


def of_group(name: str) -> Iterator[str]:
    """The requirements of a dependency group, with those of the groups that it includes."""
    entries: list[Any] = PROJECT["dependency-groups"][name]
    for each in entries:
        yield from of_group(each["include-group"]) if isinstance(each, dict) else [each]


def installed() -> list[str]:
    """The requirements that the rule of `make serve` installs."""
    (recipe,) = re.findall(r"^\$\(SERVING\):.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (extras,) = re.findall(r"--editable '\.\[(.*?)\]'", recipe)
    groups = re.findall(r"--group (\S+)", recipe)
    optional = PROJECT["project"]["optional-dependencies"]
    chosen = [each for extra in extras.split(",") for each in optional[extra]]
    return [*PROJECT["project"]["dependencies"], *chosen, *(each for group in groups for each in of_group(group))]


def names(text: str) -> Iterator[str]:
    """The name of a requirement, and the names that its extras add."""
    wanted = Requirement(text)
    yield wanted.name
    for each in map(Requirement, distribution(wanted.name).requires or () if wanted.extras else ()):
        if any(each.marker and each.marker.evaluate({"extra": extra}) for extra in wanted.extras):
            yield each.name


def test_what_make_serve_installs_suffices_to_serve(tmp_path: Path) -> None:
    clean = CleanEnvironment(tmp_path / "clean")
    clean.provide(*(name for text in installed() for name in names(text)))
    assert (
        clean.ran("import importlib.util as u; print(u.find_spec('pytest'), u.find_spec('playwright'))")
        == "None None\n"
    )
    (tmp_path / "folder").mkdir()
    serving = Serving(tmp_path / "folder", clean.python).start_for_real(SMOOTHCERT_ENSEMBLES=ENSEMBLE)
    try:
        serving.printed("Ctrl-C ends it.")
        assert "ModuleNotFoundError" not in serving.output.read_text()
        with httpx2.Client(base_url=f"http://127.0.0.1:{serving.port}", timeout=60) as client:
            request = json.dumps({"ensemble": ENSEMBLE, "radius": 1.0, "procedure": "sequential"})
            answer = client.post(
                "/v1/certifications",
                data={"request": request},
                files={"images": samples.png("mnist-test-100", 0)},
                headers={"Prefer": "wait=60"},
            )
            assert answer.status_code == 200, answer.text
            assert len(answer.json()["certificates"]) == 1
            assert client.get("/").status_code == 200
    finally:
        if serving.process.poll() is None:
            serving.interrupt()
    assert serving.exit_code() == 0
