"""Certifications are read in pieces, by their owner alone, and a wait is ended by their own messages."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import httpx2
import pytest

from app.answers import events
from app.local.embedded import EmbeddedServer
from app.redis import queue as queue_module
from app.redis.queue import Queue
from store import keys
from store.transitions.admission import Limits
from tests.service import eventually
from tests.support.api import picture, text
from tests.support.asking import URL, post, posted
from tests.support.player import Player, certificate

IMAGES = 30
T = TypeVar("T")


def reading(valkey: EmbeddedServer, read: Callable[[Queue], Coroutine[Any, Any, T]]) -> tuple[T, list[int]]:
    """The result of `read`, and the bytes of certificates in each response of Redis."""
    sizes: list[int] = []

    async def counted() -> T:
        queue = Queue(valkey.url, Limits(1, 1), result_ttl=1)
        hmget, evaluate = queue._redis.hmget, queue._redis.eval

        async def noted(*arguments: Any) -> Any:
            found = await hmget(*arguments)
            sizes.append(sum(len(each) for each in found if each))
            return found

        async def noted_first(*arguments: Any) -> Any:
            text, first = await evaluate(*arguments)
            if first:
                sizes.append(sum(len(each) for each in first if each))
            return text, first

        queue._redis.hmget, queue._redis.eval = noted, noted_first
        async with queue.listening():
            return await read(queue)

    return asyncio.run(counted()), sizes


@pytest.fixture
def finished(client: httpx2.Client, player: Player) -> tuple[str, list[str]]:
    """A certification of many images, and its certificates."""
    certification = posted(client, player, images=[text(picture())] * IMAGES).id
    record = player.begin(player.take())
    texts = {index: certificate(record, index) for index in range(IMAGES)}
    player.finish(record, texts)
    return certification, list(texts.values())


def test_certificates_are_read_in_pieces(
    valkey: EmbeddedServer, finished: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    certification, texts = finished
    monkeypatch.setattr(queue_module, "PIECE_BYTES", most := 3 * max(map(len, texts)))
    snapshot, sizes = reading(valkey, lambda queue: queue.find(certification, owner="anonymous"))
    assert snapshot is not None
    assert [snapshot.certificates[index] for index in range(IMAGES)] == texts
    assert sum(sizes) == sum(map(len, texts))
    assert len(sizes) == 1 + -(-(IMAGES - queue_module.FIRST_PIECE) // 3)
    assert max(sizes[1:]) <= most


def test_a_stranger_makes_redis_read_no_certificate(valkey: EmbeddedServer, finished: tuple[str, list[str]]) -> None:
    assert reading(valkey, lambda queue: queue.find(finished[0], owner="somebody")) == (None, [])


def test_a_stream_sends_many_certificates_in_pieces(valkey: EmbeddedServer, finished: tuple[str, list[str]]) -> None:
    certification, texts = finished

    async def followed(queue: Queue) -> list[bytes]:
        return [event async for event in events.stream(queue, certification, sent=0)]

    received, sizes = reading(valkey, followed)
    sent = [event for event in received if event.startswith(b"event: certificate\n")]
    assert sorted(each.partition(b"data: ")[2].strip().decode() for each in sent) == sorted(texts)
    assert received[-1].startswith(b"event: completed\n")
    assert [event for event in received if event.startswith(b"event: completed\n")] == received[-1:]
    assert len(sizes) == -(-IMAGES // queue_module.FIRST_PIECE)


def test_messages_go_to_those_who_wait_for_them(client: httpx2.Client, player: Player) -> None:
    """Mutant killed: one channel for all changes, which every process receives."""
    waited, other = posted(client, player).id, posted(client, player).id

    def channels() -> list[bytes]:
        return [each for each in player.redis.pubsub_channels(f"{keys.CHANGED}:*") if waited.encode() in each]

    assert player.redis.pubsub_numsub(keys.changed(other))[0][1] == 0
    answers: list[httpx2.Response] = []
    wait = {"Prefer": "wait=60"}
    waiting = threading.Thread(target=lambda: answers.append(client.get(f"{URL}/{waited}", headers=wait)))
    waiting.start()
    eventually(channels, "the subscription")
    assert player.redis.pubsub_numsub(keys.changed(other))[0][1] == 0
    player.play()
    waiting.join()
    assert answers[0].json()["status"] == "succeeded"
    eventually(lambda: not channels(), "the end of the subscription")


def test_a_request_that_waits_for_its_own_certification_needs_no_subscription(
    client: httpx2.Client, player: Player
) -> None:
    """Mutants killed: the end is told to no process; the request subscribes; every record names the process."""
    answers: list[httpx2.Response] = []
    waiting = threading.Thread(target=lambda: answers.append(post(client, player, headers={"Prefer": "wait=60"})))
    waiting.start()
    eventually(player.waiting, "the certification")
    record = player.begin(player.take())
    assert player.redis.pubsub_numsub(keys.changed(record.id))[0][1] == 0
    assert player.redis.pubsub_numsub(keys.ends(record.api))[0][1] == 1
    heard = player.redis.pubsub(ignore_subscribe_messages=True)
    heard.subscribe(keys.ends(record.api))
    player.redis.publish(keys.ends(record.api), f"{record.id} succeeded")  # the request looks, and goes on waiting
    player.finish(record, {0: (made := certificate(record, 0))})
    waiting.join()
    messages = [message["data"] for _ in range(5) if (message := heard.get_message(timeout=0.1))]
    heard.close()
    assert messages == [f"{record.id} succeeded".encode()] * 2
    assert answers[0].json()["certificates"] == [json.loads(made)]
    assert player.record(posted(client, player).id).api == ""
