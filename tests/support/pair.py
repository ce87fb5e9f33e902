"""An ensemble of two tiny members, `pair`, and files from which others are made."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.addition import Addition, add
from models.architectures import ARCHITECTURES
from models.training.checkpoint import write_safetensors
from tests.support.networks import Tiny, tiny

PROPERTIES = Addition(classes=("a", "b", "c"), input_shape=(1, 4, 4), architecture="tiny", sigma=0.25)


def know_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `tiny` be the name of an architecture."""
    monkeypatch.setitem(ARCHITECTURES, "tiny", lambda classes, normalisation: Tiny(classes))


def weights_file(folder: Path, seed: int, classes: int = 3, **record: object) -> Path:
    path = folder / f"member-{seed}.safetensors"
    write_safetensors(path, tiny(seed, classes).state_dict(), {"seed": seed, "architecture": "tiny", **record})
    return path


def pair_zoo(folder: Path) -> Path:
    """A zoo with one good ensemble of two members."""
    add("pair", [weights_file(folder, 0), weights_file(folder, 1)], PROPERTIES, zoo=folder / "zoo")
    return folder / "zoo"
