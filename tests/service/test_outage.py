"""Redis goes away and comes back: requests get 503 in bounded time, and the service recovers by itself."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from redis import Redis

from app.local.embedded import EmbeddedServer
from store import keys
from tests.service import eventually
from tests.support.api import Api, problem, question
from tests.support.player import Player

URL = "/v1/certifications"
BOUND = 30.0
"""The longest seconds of a response; the timeouts add up to six, and the machine may be busy."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server that the test may kill."""
    with EmbeddedServer(tmp_path_factory.mktemp("mortal")) as running:
        yield running


@pytest.fixture(scope="module")
def outage(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(server.url, tmp_path_factory.mktemp("outage")) as running:
        yield running


@pytest.fixture
def worker(server: EmbeddedServer) -> Player:
    made = Player(server.url)
    made.announce()
    return made


def requests(api: Api, certification: str) -> Iterator[httpx2.Response]:
    here = f"{URL}/{certification}"
    yield api.client.post(URL, json=question("x"))
    yield api.client.get(URL)
    yield api.client.get(here)
    yield api.client.get(here, headers={"Prefer": "wait=5"})
    yield api.client.get(f"{here}/events")
    yield api.client.post(f"{here}/cancel")
    yield api.client.delete(here)
    yield api.client.get("/v1/ensembles")
    yield api.client.post("/v1/plan", json={"ensemble": "x", "radius": 0.1})
    yield api.client.get("/readyz")


def test_while_redis_is_away_every_answer_says_so(server: EmbeddedServer, outage: Api, worker: Player) -> None:
    certification = outage.client.post(URL, json=question(worker.ensemble)).json()
    server.kill()
    try:
        time.sleep(1.1)  # what the API knew of the ensembles is out of date
        started = time.monotonic()
        for answer in requests(outage, certification["id"]):
            problem(answer, "unavailable")
            assert int(answer.headers["retry-after"]) >= 1
            assert time.monotonic() - started < BOUND
            started = time.monotonic()
        assert outage.client.get("/healthz").status_code == 200
        assert outage.client.get("/docs").status_code == 200
        metrics = outage.client.get("/metrics")
        assert metrics.status_code == 200
        assert "smoothcert_redis_up 0.0" in metrics.text
    finally:
        server.start()
    assert "Traceback" not in outage.log.read_text()
    here = f"{URL}/{certification['id']}"
    assert eventually(lambda: outage.client.get(here).status_code == 200)
    worker.announce()
    assert outage.client.post(URL, json=question(worker.ensemble)).status_code == 202
    assert outage.client.get("/readyz").status_code == 200


def test_after_a_restart_waits_are_woken_by_messages_again(server: EmbeddedServer, outage: Api, worker: Player) -> None:
    server.kill()
    server.start()
    worker.announce()
    eventually(lambda: dict(worker.redis.pubsub_numsub(keys.CHANGED))[keys.CHANGED.encode()], "the listener")

    def seconds() -> float:
        """The seconds from the end of a certification to the end of the wait for it."""
        ended: list[float] = []

        def play() -> None:
            record = worker.begin(worker.take())
            time.sleep(0.2)
            worker.finish(record)
            ended.append(time.monotonic())

        thread = threading.Thread(target=play)
        thread.start()
        answer = outage.client.post(URL, json=question(worker.ensemble), headers={"Prefer": "wait=30"})
        answered_at = time.monotonic()
        thread.join()
        assert answer.json()["status"] == "succeeded"
        return answered_at - ended[0]

    assert any(seconds() < 0.3 for _ in range(5))  # a look every second alone would take 0.8 s


def test_who_waits_through_an_outage_gets_an_answer(server: EmbeddedServer, outage: Api, worker: Player) -> None:
    answers: list[httpx2.Response] = []
    payload, wait = question(worker.ensemble), {"Prefer": "wait=60"}
    waiting = threading.Thread(target=lambda: answers.append(outage.client.post(URL, json=payload, headers=wait)))
    waiting.start()
    eventually(worker.waiting)
    server.kill()
    time.sleep(1.2)  # at least one look meets the outage
    server.start()
    worker.play()
    waiting.join()
    assert answers[0].json()["status"] == "succeeded"


def test_a_wait_that_ends_within_an_outage_tells_what_was_known(
    server: EmbeddedServer, outage: Api, worker: Player
) -> None:
    """It was accepted, and a 503 would make the client post it again."""
    answers: list[httpx2.Response] = []
    payload, wait = question(worker.ensemble), {"Prefer": "wait=2"}
    waiting = threading.Thread(target=lambda: answers.append(outage.client.post(URL, json=payload, headers=wait)))
    waiting.start()
    eventually(worker.waiting)
    server.kill()
    waiting.join()
    server.start()
    assert (answers[0].status_code, answers[0].json()["status"]) == (202, "queued")


def test_a_stream_outlives_an_outage(server: EmbeddedServer, outage: Api, worker: Player) -> None:
    certification = outage.client.post(URL, json=question(worker.ensemble)).json()
    lines: list[str] = []

    def listen() -> None:
        with outage.client.stream("GET", f"{URL}/{certification['id']}/events") as answer:
            lines.extend(answer.iter_lines())

    listener = threading.Thread(target=listen)
    listener.start()
    eventually(lambda: lines, "the first event")
    server.kill()
    time.sleep(1.2)  # at least one look meets the outage
    server.start()
    worker.play()
    eventually(lambda: not listener.is_alive(), "the end of the stream")
    assert "event: completed" in lines
    last = json.loads([line for line in lines if line.startswith("data: ")][-1].removeprefix("data: "))
    assert last["status"] == "succeeded"


def test_a_server_that_says_nothing_is_not_waited_for_by_one_or_by_many(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, Api(address(silent), tmp_path) as api:
        started = time.monotonic()
        with ThreadPoolExecutor(13) as crowd:
            one = crowd.submit(api.client.get, URL)
            many = crowd.map(api.client.get, ["/readyz", "/v1/ensembles"] * 6)
            assert api.client.get("/healthz").status_code == 200
            problem(one.result(), "unavailable")
            assert time.monotonic() - started < BOUND
            for answer in many:
                problem(answer, "unavailable")
        assert time.monotonic() - started < 2 * BOUND


def test_a_change_whose_answer_is_lost_is_not_denied(server: EmbeddedServer, worker: Player, tmp_path: Path) -> None:
    with Lossy(server.url) as lossy, Api(lossy.url, tmp_path) as api:
        here = f"{URL}/{api.client.post(URL, json=question(worker.ensemble)).json()['id']}"
        lossy.lose_answer_to(b"certifications:canceled")
        canceled = api.client.post(f"{here}/cancel")
        assert (canceled.status_code, canceled.json()["status"]) == (200, "canceled")
        lossy.lose_answer_to(keys.DELETED.encode())
        assert api.client.delete(here).status_code == 204
        problem(api.client.get(here), "unknown_certification")
        assert lossy.lost == 2


class Lossy:
    """A proxy before a server that cuts the connection once a given command has been carried out."""

    def __init__(self, url: str) -> None:
        self._server = Redis.from_url(url).connection_pool.connection_kwargs
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._word: bytes | None = None
        self.lost = 0
        self.url = address(self._listening).replace("//", f"//:{self._server['password']}@")

    def lose_answer_to(self, word: bytes) -> None:
        self._word = word

    def __enter__(self) -> Lossy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self._server["path"])
            other, losing = {client: server, server: client}, False
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(65_536)
                    if not data or (ready is server and losing):
                        return
                    if ready is client and self._word and self._word in data:
                        self._word, losing, self.lost = None, True, self.lost + 1
                    other[ready].sendall(data)


def address(listening: socket.socket) -> str:
    return f"redis://127.0.0.1:{listening.getsockname()[1]}/0"


def test_a_service_starts_without_redis(tmp_path: Path) -> None:
    with Api(f"unix://{tmp_path}/nothing.sock", tmp_path) as api:
        problem(api.client.get("/readyz"), "unavailable")
        problem(api.client.post(URL, json=question("x")), "unavailable")
        assert "Traceback" not in api.log.read_text()
