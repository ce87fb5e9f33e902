"""The cost of waits: many requests wait at the same time, for certifications of many certificates."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from app.local.embedded import EmbeddedServer
from tests.service import eventually
from tests.support.api import ANSWER_S, Api, question
from tests.support.player import Player, certificate

URL = "/v1/certifications"
TWO = question("")["images"] * 2


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server of these tests alone, because they count the commands of all its clients."""
    with EmbeddedServer(tmp_path_factory.mktemp("valkey")) as running:
        yield running


@pytest.fixture(scope="module")
def api(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(valkey.url, tmp_path_factory.mktemp("api")) as running:
        yield running


def reads(player: Player) -> int:
    """The number of times that a whole certification was read or changed; both are scripts."""
    return int(player.redis.info("commandstats")["cmdstat_eval"]["calls"])


def test_certificates_are_read_at_the_beginning_and_the_end_alone(api: Api, player: Player) -> None:
    certification = api.client.post(URL, json=question(player.ensemble)).json()
    record = player.begin(player.take())
    before = reads(player)
    assert api.client.get(f"{URL}/{certification['id']}", headers={"Prefer": "wait=2"}).json()["status"] == "running"
    assert reads(player) - before == 2
    player.finish(record)


def test_a_wait_that_is_over_tells_what_was_finished_meanwhile(api: Api, player: Player) -> None:
    certification = api.client.post(URL, json=question(player.ensemble, images=TWO)).json()
    record, answers = player.begin(player.take()), list[Any]()
    before = reads(player)

    def wait() -> None:
        answers.append(api.client.get(f"{URL}/{certification['id']}", headers={"Prefer": "wait=2"}).json())

    client = threading.Thread(target=wait)
    client.start()
    eventually(lambda: reads(player) > before)
    player.save(record, {1: certificate(record, 1)})
    client.join()
    assert (answers[0]["status"], [each["index"] for each in answers[0]["certificates"] if each]) == ("running", [1])
    player.finish(player.record(record.id), {0: certificate(record, 0)})


def test_nobody_waits_for_a_client_that_is_gone(api: Api, player: Player) -> None:
    certification = api.client.post(URL, json=question(player.ensemble)).json()
    before = reads(player)
    with socket.create_connection(("127.0.0.1", api.port), timeout=ANSWER_S) as connection:
        head = f"GET {URL}/{certification['id']} HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=60\r\n\r\n"
        connection.sendall(head.encode())
        eventually(lambda: reads(player) > before)
    answered = f'"path": "{URL}/{certification["id"]}"'
    assert eventually(lambda: answered in api.log.read_text(), patience=30)  # half of the wait
