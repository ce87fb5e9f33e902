"""Certifications as a client asks for them."""

from __future__ import annotations

import threading
from typing import Any

import httpx2

from smoothcert.certification import Certification
from tests.support.api import question
from tests.support.player import Player

URL = "/v1/certifications"


def post(
    client: httpx2.Client, player: Player, *, headers: dict[str, str] | None = None, **fields: Any
) -> httpx2.Response:
    return client.post(URL, json=question(player.ensemble, **fields), headers=headers)


def posted(client: httpx2.Client, player: Player, **fields: Any) -> Certification:
    answer = post(client, player, **fields)
    assert answer.status_code == 202, answer.text
    return Certification.model_validate_json(answer.content)


def got(client: httpx2.Client, certification: str) -> Certification:
    answer = client.get(f"{URL}/{certification}")
    assert answer.status_code == 200, answer.text
    return Certification.model_validate_json(answer.content)


def in_a_moment(act: Any) -> threading.Thread:
    """Run what a worker does while the client waits."""
    thread = threading.Timer(0.2, act)
    thread.start()
    return thread
