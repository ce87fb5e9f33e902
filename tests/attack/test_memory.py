"""Memory is bounded for all bodies together, and no body takes many times its size."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx2
import numpy as np
import pytest

from app.http.body import MOST_VALUES, Bodies
from app.http.errors import ProblemError
from app.requests.images import ImageSpec, decode, decoded_bytes
from smoothcert.request import TensorImage
from tests.service import eventually
from tests.support.api import ANSWER_S, Api, picture, problem, question, tensor, text
from tests.support.player import Player

URL = "/v1/certifications"
JSON = {"Content-Type": "application/json"}
HEAD = f"POST {URL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n"


def open_upload(api: Api, stack: ExitStack, size: int) -> socket.socket:
    """A body of which this many bytes have been sent; the rest follows later."""
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", api.port), timeout=ANSWER_S))
    connection.sendall(HEAD.encode())
    connection.sendall(b" " * size)
    return connection


def unanswered(crowd: list[socket.socket]) -> list[socket.socket]:
    answered, _, _ = select.select(crowd, [], [], 0)
    return [each for each in crowd if each not in answered]


def test_bodies_under_way_take_so_much_and_no_more(odd: Api, player: Player) -> None:
    """Five bodies of 2.9 MB fit into 16 MB, and the sixth gets a Retry-After."""
    payload = json.dumps(question(player.ensemble)).encode()
    before = odd.resident_bytes()
    with ExitStack() as stack:
        crowd = [open_upload(odd, stack, 2_900_000) for _ in range(15)]
        eventually(lambda: len(unanswered(crowd)) <= 6, "the refusal of those that do not fit")
        late = eventually(lambda: _refused(odd, payload))
        assert problem(late, "overloaded").detail
        assert int(late.headers["retry-after"]) >= 1
        assert odd.client.get("/healthz").status_code == 200
        assert odd.resident_bytes() - before < 35e6  # 43 MB were sent
        assert len(unanswered(crowd)) <= 6
    assert eventually(lambda: odd.client.post(URL, content=payload, headers=JSON).status_code == 202)
    player.play()


def _refused(api: Api, payload: bytes) -> httpx2.Response | None:
    answer = api.client.post(URL, content=payload + b" " * 3_000_000, headers=JSON)
    return answer if answer.status_code == 503 else None


def test_many_large_uploads_at_a_time_are_answered_within_the_memory(odd: Api, player: Player) -> None:
    body = json.dumps(question(player.ensemble)).encode() + b" " * 3_900_000
    url, highest, done = f"http://127.0.0.1:{odd.port}{URL}", [odd.resident_bytes()], threading.Event()
    before = highest[0]

    def watch() -> None:
        while not done.wait(0.01):
            highest.append(odd.resident_bytes())

    def post(_: int) -> int:
        return httpx2.post(url, content=body, headers=JSON, timeout=60).status_code

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with ThreadPoolExecutor(16) as pool:
            answers = Counter(pool.map(post, range(40)))
    finally:
        done.set()
        watcher.join()
    assert answers[202] > 0
    assert set(answers) <= {202, 503}
    # This allows for what is read, its copy, and what four threads make of it. Without a limit, all 16 bodies count.
    assert max(highest) - before < 16e6 + 4 * 5 * 4e6
    for _ in range(answers[202]):
        player.play()


def test_who_waits_for_an_answer_holds_nothing(odd: Api, player: Player) -> None:
    body = json.dumps(question(player.ensemble)).encode() + b" " * 3_900_000
    url = f"http://127.0.0.1:{odd.port}{URL}"
    wait = {**JSON, "Prefer": "wait=60"}
    with ThreadPoolExecutor(8) as pool:  # twice as many bodies as fit
        answers = []
        for number in range(8):
            answers.append(pool.submit(httpx2.post, url, content=body, headers=wait, timeout=90))
            eventually(lambda: len(player.waiting()) == number + 1)  # noqa: B023
        for _ in range(8):
            player.play()
        assert [answer.result().status_code for answer in answers] == [200] * 8


def test_a_share_is_given_back_whatever_happens() -> None:
    bodies = Bodies(100)
    with bodies.share() as alone:
        alone.take(60)
        with pytest.raises(ProblemError, match="too_large"):
            alone.take(50)
    assert bodies.held == 0
    with bodies.share() as one, bodies.share() as other:
        one.take(60)
        with pytest.raises(ProblemError, match="overloaded"):
            other.take(41)
        other.take(40)
        assert bodies.held == 100
    assert bodies.held == 0
    bodies.close()


def many(values: bytes) -> Iterator[bytes]:
    """A request of 31 MB with very many small values."""
    yield b'{"images": ['
    for _ in range(31):
        yield values * (1_000_000 // len(values))
    yield b"0]}"


@pytest.mark.parametrize(
    ("path", "values"),
    [(URL, b"[],"), (URL, b"{},"), (URL, b'{"a":0},'), (URL, b"1.5,"), ("/v1/plan", b"[],"), ("/v1/verify", b"[],")],
)
def test_a_json_of_a_million_values_takes_no_memory(api: Api, path: str, values: bytes) -> None:
    before = api.resident_bytes()
    answer = api.client.post(path, content=b"".join(many(values)), headers=JSON)
    assert f"{MOST_VALUES:,}" in problem(answer, "too_large").detail
    assert api.resident_bytes() - before < 150e6


@pytest.mark.parametrize("image", [[], {}, 1.5, None, {"dtype": "x"}])
def test_what_is_wrong_with_many_images_is_said_of_the_first(api: Api, player: Player, image: object) -> None:
    payload = question(player.ensemble, images=[image] * 20_000)
    refusal = problem(api.client.post(URL, json=payload), "invalid_request")
    assert {error.field.split(".")[:2] == ["images", "0"] for error in refusal.errors} == {True}


@pytest.mark.parametrize("field", ["metadata", "procedure", "unknown"])
def test_more_mistakes_than_can_be_named_are_counted(api: Api, player: Player, field: str) -> None:
    many = {str(number): 0 for number in range(50_000)}
    wrong = {
        "metadata": {"metadata": many},
        "procedure": {"procedure": {"name": "adaptive", "stages": ["x"] * 50_000}},
        "unknown": many,
    }
    answer = api.client.post(URL, json=question(player.ensemble, **wrong[field]))
    assert "more than can be named" in problem(answer, "invalid_request").detail
    assert len(answer.content) < 1000


def test_files_much_smaller_than_their_pixels_are_counted_by_their_pixels() -> None:
    spec = ImageSpec(3, 224, 224, "none", 16_000_000)
    file = picture(size=(224, 224))
    number = TensorImage.model_validate(tensor(np.zeros((3, 224, 224), np.float32)))
    for images, itemsize in (([file] * 3, 1), ([text(file), number], 4)):
        made = decode(images, spec)
        assert made.nbytes == decoded_bytes(images, spec) == len(images) * 3 * 224 * 224 * itemsize


def test_pixels_that_never_fit_are_refused_for_good(odd: Api, players: Callable[..., Player]) -> None:
    large = players(input_shape=(3, 2000, 2000))
    images = [text(picture(size=(2000, 2000)))] * 2
    assert "24,0" in problem(odd.client.post(URL, json=question(large.ensemble, images=images)), "too_large").detail
    assert odd.client.post(URL, json=question(large.ensemble, images=images[:1])).status_code == 202
    record = large.take()
    assert large.images(record.id).shape == (1, 3, 2000, 2000)
    large.finish(large.begin(record))
