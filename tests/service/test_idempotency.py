"""A request that is sent again under its Idempotency-Key."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx2
import numpy as np
import pytest

from store import keys
from tests.service import eventually
from tests.support.api import picture, problem, question, tensor
from tests.support.asking import URL, post
from tests.support.player import SHAPE, Player


def test_a_key_that_is_sent_again_gives_the_same_certification(client: httpx2.Client, player: Player) -> None:
    headers = {"Idempotency-Key": f"once {player.name}"}
    first, second = post(client, player, headers=headers), post(client, player, headers=headers)
    assert first.json()["id"] == second.json()["id"]
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert second.status_code == 202
    assert player.waiting() == [first.json()["id"]]
    player.play()
    third = post(client, player, headers=headers)
    assert (third.status_code, third.json()["status"]) == (200, "succeeded")


def test_a_form_that_is_sent_again_may_have_another_boundary(client: httpx2.Client, player: Player) -> None:
    request = question(player.ensemble)
    del request["images"]
    form: dict[str, Any] = {"data": {"request": json.dumps(request)}, "files": [("images", picture())]}
    headers = {"Idempotency-Key": f"form {player.name}"}
    first, second = client.post(URL, **form, headers=headers), client.post(URL, **form, headers=headers)
    assert first.request.headers["content-type"] != second.request.headers["content-type"]
    assert first.json()["id"] == second.json()["id"]


def test_a_key_that_was_used_for_something_else_is_a_conflict(client: httpx2.Client, player: Player) -> None:
    headers = {"Idempotency-Key": f"twice {player.name}"}
    dark, light = tensor(np.zeros(SHAPE, np.uint8)), tensor(np.ones(SHAPE, np.uint8))
    assert post(client, player, headers=headers, images=[dark]).status_code == 202
    problem(post(client, player, headers=headers, images=[dark], alpha=0.01), "idempotency_conflict")
    problem(post(client, player, headers=headers, images=[light]), "idempotency_conflict")
    problem(post(client, player, headers=headers, images=[dark, dark]), "idempotency_conflict")
    assert len(player.waiting()) == 1


def test_after_its_certification_is_deleted_a_key_draws_nothing_anew(client: httpx2.Client, player: Player) -> None:
    headers = {"Idempotency-Key": f"again {player.name}"}
    first = post(client, player, headers=headers).json()["id"]
    player.play()
    assert client.delete(f"{URL}/{first}").status_code == 204
    assert first in problem(post(client, player, headers=headers), "expired").detail
    problem(post(client, player, headers=headers, alpha=0.01), "idempotency_conflict")
    assert player.waiting() == []


def test_a_key_is_remembered_as_long_as_its_certification(client: httpx2.Client, player: Player) -> None:
    headers = {"Idempotency-Key": f"old {player.name}"}
    first = post(client, player, headers=headers).json()["id"]
    player.finish(player.begin(player.take()), ttl=1, now=time.time() - 5)
    problem(post(client, player, headers=headers), "expired")
    key = player.record(first).idempotency
    kept = [player.redis.pexpiretime(each) for each in (keys.record(first), key)]
    assert abs(kept[0] - kept[1]) < 1000
    eventually(lambda: not player.redis.exists(keys.record(first), key), "the expiry of both")
    assert post(client, player, headers=headers).json()["id"] != first


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9"])
def test_a_key_must_be_printable_and_short(client: httpx2.Client, player: Player, key: str) -> None:
    headers = {b"Idempotency-Key": key.encode("latin-1")}
    answer = client.post(URL, json=question(player.ensemble), headers=headers)
    assert "Idempotency-Key" in problem(answer, "invalid_request").detail
    assert player.waiting() == []
