"""Fixtures of several files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from smoothcert.engine.smoothed import Smoothed
from tests.support.smoothed import NOISE, patches


@pytest.fixture
def smoothed() -> Iterator[Smoothed]:
    """A small model of four classes, whose thread ends with the test."""
    with Smoothed(patches(), NOISE) as made:
        yield made
