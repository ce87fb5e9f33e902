"""Public names and the extras that they need."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import smoothcert
from smoothcert.engine.smoothed import Smoothed
from smoothcert.extras import needed_by
from smoothcert.noise import Gaussian
from smoothcert.verification import verify
from tests.support.smoothed import NOISE, patches

ROOT = Path(__file__).parents[2]
OURS = ("smoothcert", "models", "store", "workers", "app", "benchmarks")


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = re.escape("x needs torch: pip install '.[torch]' in a clone of smoothcert")
    with pytest.raises(ImportError, match=sentence), needed_by("x"):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    for name in ("unheard", "torch.nn.missing", None):
        with pytest.raises(ModuleNotFoundError), needed_by("x"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_nobody_is_told_to_install_by_name_a_package_that_is_on_no_index() -> None:
    """A package of our name on an index would be somebody else's."""
    files = [*ROOT.glob("docs/*"), *(file for name in OURS for file in (ROOT / name).rglob("*.py")), ROOT / "README.md"]
    texts = {file: file.read_text() for file in files if file.suffix in {".py", ".md", ".ipynb"}}
    assert len(texts) > 400
    assert [file for file, text in texts.items() if re.search(r"pip install '?smoothcert", text)] == []


def test_the_public_names_are_the_classes_themselves() -> None:
    assert smoothcert.Smoothed is Smoothed
    assert smoothcert.Gaussian is Gaussian
    assert smoothcert.verify is verify
    assert repr(Smoothed(patches(), NOISE)).startswith("Smoothed([Patches], Gaussian(sigma=0.25")


WITHOUT = """
import sys
sys.modules["torch"] = sys.modules["httpx2"] = None  # as if they were not installed
import inspect, smoothcert
assert not hasattr(smoothcert, "Smoothed") and not hasattr(smoothcert, "Client")
assert not hasattr(smoothcert.client, "Client")
assert {"Gaussian", "verify", "BusyError", "SmoothedWarning"} <= {name for name, _ in inspect.getmembers(smoothcert)}
from smoothcert import *
assert Gaussian(0.25).sigma == 0.25 and "Smoothed" not in globals()
try:
    smoothcert.Smoothed
except smoothcert.MissingExtraError as error:
    print(error)
try:
    from smoothcert import Client
except ImportError as error:
    print(error)
"""


def test_without_an_extra_the_other_names_work() -> None:
    script = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(script, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "smoothcert.Smoothed needs torch: pip install '.[torch]' in a clone of smoothcert",
        "smoothcert.Client needs httpx2: pip install '.[client]' in a clone of smoothcert",
    ]
