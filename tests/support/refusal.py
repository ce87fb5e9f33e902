"""Refusals: their words, and that nothing is queued."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.support.api import problem, question
from tests.support.player import SHAPE, Player

URL = "/v1/certifications"
CHANNELS, HEIGHT, WIDTH = SHAPE
JSON = {"Content-Type": "application/json"}
NPY = {"Content-Type": "application/x-npy"}


@pytest.fixture(autouse=True)
def nothing_is_queued(player: Player) -> Iterator[None]:
    yield
    assert player.waiting() == []


def refused(client: httpx2.Client, player: Player, code: str, *phrases: str, **fields: Any) -> None:
    """Assert that a request is refused, with these phrases in the detail."""
    answer = client.post(URL, json=question(player.ensemble, **fields))
    refusal = problem(answer, code)
    for phrase in phrases:
        assert phrase in refusal.detail, refusal.detail
