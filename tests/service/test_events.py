"""Certifications as event streams."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import httpx2
import pytest

from app.answers import events
from app.local.embedded import EmbeddedServer
from app.redis.queue import Queue
from smoothcert.certification import CertificationSummary, Progress
from store import keys
from store.transitions.admission import Limits
from tests.service import eventually
from tests.support.api import picture, problem, text
from tests.support.asking import URL, posted
from tests.support.player import Player, certificate


class Listener:
    """Reads the events of a stream in a thread."""

    def __init__(self, client: httpx2.Client, certification: str, **headers: str) -> None:
        self.events: list[tuple[str, str, Any]] = []
        self.status = 0
        self._client, self._url = client, f"{URL}/{certification}/events"
        self._thread = threading.Thread(target=self._listen, args=(headers,))
        self._thread.start()

    def _listen(self, headers: dict[str, str]) -> None:
        with self._client.stream("GET", self._url, headers=headers) as answer:
            self.status = answer.status_code
            assert answer.headers["content-type"].startswith("text/event-stream")
            fields: dict[str, str] = {}
            for line in answer.iter_lines():
                if line and not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif not line and fields:
                    self.events.append((fields["event"], fields["id"], json.loads(fields["data"])))
                    fields = {}

    def until(self, count: int, kind: str = "") -> list[tuple[str, str, Any]]:
        """The events of a kind, once there are this many."""

        def enough() -> list[tuple[str, str, Any]]:
            found = [event for event in self.events if kind in ("", event[0])]
            return found if len(found) >= count else []

        return eventually(enough, f"{count} events {kind}")

    def to_the_end(self) -> list[tuple[str, str, Any]]:
        eventually(lambda: not self._thread.is_alive(), "the end of the stream")
        return self.events


def test_events_tell_the_whole_story(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player, images=[text(picture())] * 3)
    listener = Listener(client, certification.id)
    ((_, _, first),) = listener.until(1, "status")
    assert CertificationSummary.model_validate(first).status == "queued"
    record = player.begin(player.take())
    listener.until(2, "status")
    player.save(record, {2: certificate(record, 2)})
    listener.until(1, "certificate")
    player.save(player.record(certification.id), {1: certificate(record, 1)})
    listener.until(2, "certificate")
    player.finish(player.record(certification.id), {0: certificate(record, 0)})
    received_events = listener.to_the_end()
    assert [event["status"] for kind, _, event in received_events if kind == "status"] == ["queued", "running"]
    certificates = [(id_, event["index"]) for kind, id_, event in received_events if kind == "certificate"]
    assert certificates == [("1", 2), ("2", 1), ("3", 0)]
    progress = [Progress.model_validate(event).images_done for kind, _, event in received_events if kind == "progress"]
    assert progress == [0, 1, 2, 3]
    kind, id_, last = received_events[-1]
    assert (kind, id_) == ("completed", "end")
    assert CertificationSummary.model_validate(last).status == "succeeded"
    assert "certificates" not in last


@pytest.mark.parametrize("received", [0, 1, 2, 3])
def test_a_stream_goes_on_exactly_where_it_broke_off(client: httpx2.Client, player: Player, received: int) -> None:
    certification = posted(client, player, images=[text(picture())] * 3)
    record = player.begin(player.take())
    for index in (1, 2):
        player.save(player.record(certification.id), {index: certificate(record, index)})
    player.finish(player.record(certification.id), {0: certificate(record, 0)})
    received_events = Listener(client, certification.id, **{"Last-Event-ID": str(received)}).to_the_end()
    indices = [event["index"] for kind, _, event in received_events if kind == "certificate"]
    assert indices == [1, 2, 0][received:]
    assert received_events[-1][0] == "completed"


def test_a_certificate_that_is_saved_again_keeps_its_place(client: httpx2.Client, player: Player) -> None:
    """A worker that got no reply sends the same call again, and ids that clients have seen must stay valid."""
    certification = posted(client, player, images=[text(picture())] * 3)
    record = player.begin(player.take())
    for index in (2, 1, 2):
        player.save(player.record(certification.id), {index: certificate(record, index)})
    player.finish(player.record(certification.id), {0: certificate(record, 0)})
    received_events = Listener(client, certification.id).to_the_end()
    assert [event["index"] for kind, _, event in received_events if kind == "certificate"] == [2, 1, 0]


def test_after_the_end_there_is_nothing_to_follow(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player)
    player.play()
    answer = client.get(f"{URL}/{certification.id}/events", headers={"Last-Event-ID": "end"})
    assert (answer.status_code, answer.content) == (204, b"")


def test_a_stream_in_which_nothing_happens_says_that_it_lives(
    valkey: EmbeddedServer, client: httpx2.Client, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "KEEP_ALIVE_SECONDS", 0.1)
    certification = posted(client, player).id

    async def first(count: int) -> list[bytes]:
        queue = Queue(valkey.url, Limits(1, 1), result_ttl=1)
        async with queue.listening():
            stream = events.stream(queue, certification, sent=0)
            return [await anext(stream) for _ in range(count)]

    status, progress, *rest = asyncio.run(first(4))
    assert status.startswith(b"event: status\nid: 0\ndata: {")
    assert progress.startswith(b"event: progress\n")
    assert rest == [b": still here\n\n"] * 2


def test_a_stream_ends_where_its_certification_is_deleted(client: httpx2.Client, player: Player) -> None:
    certification = posted(client, player)
    listener = Listener(client, certification.id)
    listener.until(1)
    player.redis.delete(keys.record(certification.id))
    assert listener.to_the_end()[-1][0] != "completed"


@pytest.mark.parametrize("id_", ["-1", "one", "1.0", "\u0663", "9" * 30, "END"])
def test_a_malformed_last_event_id_is_refused(client: httpx2.Client, player: Player, id_: str) -> None:
    certification = posted(client, player)
    answer = client.get(f"{URL}/{certification.id}/events", headers={b"Last-Event-ID": id_.encode()})
    assert "Last-Event-ID" in problem(answer, "invalid_request").detail


@pytest.mark.parametrize(
    ("accept", "fits"),
    [
        ("text/event-stream", True),
        ("application/json, text/*;q=0.1", True),
        ("*/*", True),
        ("*/*;q=0, text/event-stream", True),
        ("application/json", False),
        ("text/event-stream;q=0, */*", False),
        ("text/*;q=0.0, */*", False),
        ("*/*;q=0", False),
    ],
)
def test_accept_decides_whether_there_is_a_stream(
    client: httpx2.Client, player: Player, accept: str, fits: bool
) -> None:
    certification = posted(client, player)
    player.play()
    answer = client.get(f"{URL}/{certification.id}/events", headers={"Accept": accept})
    if fits:
        assert answer.status_code == 200
    else:
        assert accept in problem(answer, "not_acceptable").detail
