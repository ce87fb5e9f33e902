"""What comes before the application sees a request: endless heads, slow ones, too many, and what is not HTTP."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from contextlib import ExitStack, suppress

import pytest

from app.http.protocol import MOST_HEAD, MOST_PIPELINED
from tests.service import eventually
from tests.support.api import ANSWER_S, Api

GET = b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def connect(api: Api) -> socket.socket:
    return socket.create_connection(("127.0.0.1", api.port), timeout=ANSWER_S)


def all_of(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    answer = b""
    with suppress(ConnectionResetError):  # it closed before it had read all that was sent
        while chunk := connection.recv(65_536):
            answer += chunk
    return answer


def replies(api: Api, pieces: Iterable[bytes]) -> bytes:
    """The answers to what is sent, until the service closes the connection."""
    with connect(api) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                connection.sendall(piece)
        return all_of(connection)


def require_problem(answer: bytes, status: int, code: str) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:300]
    headers = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])
    assert headers[b"content-type"] == b"application/problem+json"
    assert headers[b"connection"] == b"close"
    assert b"default-src 'none'" in headers[b"content-security-policy"]
    fields = json.loads(body)
    assert (fields["code"], fields["status"]) == (code, status)
    assert fields["request_id"].encode() == headers[b"x-request-id"]


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,  # TLS
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        GET + b"Bad Name: x\r\n\r\n",
        GET + b"A: b\0c\r\n\r\n",
        GET + b" folded: x\r\n\r\n",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 1, 2\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",  # two lengths: a way to smuggle
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_is_no_http_is_a_problem(api: Api, sent: bytes) -> None:
    require_problem(replies(api, [sent]), 400, "bad_request")


def test_a_chunk_that_is_none_ends_the_connection(api: Api) -> None:
    assert b'"code": "bad_request"' in replies(api, [CHUNKED + b"zz\r\n"])


@pytest.mark.parametrize(
    "pieces",
    [
        [GET + b"A: " + b"x" * MOST_HEAD + b"\r\n\r\n"],
        [GET, *[b"A: b\r\n" * 1000] * 1000],
        [GET, b"A: ", *[b"x" * 10_000] * 1000],
        [GET, b"A", *[b"x" * 10_000] * 1000],
        [b"GET /", *[b"x" * 10_000] * 1000],
    ],
    ids=["at once", "many", "an endless value", "an endless name", "an endless path"],
)
def test_an_endless_head_is_refused(api: Api, pieces: list[bytes]) -> None:
    before = api.resident_bytes()
    require_problem(replies(api, pieces), 431, "head_too_large")
    assert api.resident_bytes() - before < 20e6


def test_a_head_of_any_use_is_taken(api: Api) -> None:
    answer = replies(api, [GET + b"A: " + b"x" * 60_000 + b"\r\nConnection: close\r\n\r\n"])
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("piece", [b"A: b\r\n" * 1000, b"A: " + b"x" * 10_000], ids=["many", "one"])
def test_endless_trailers_are_refused(api: Api, piece: bytes) -> None:
    before = api.resident_bytes()
    answer = replies(api, [CHUNKED + b"2\r\n{}\r\n0\r\n", *[piece] * 2000])
    assert b'"code": "head_too_large"' in answer
    assert api.resident_bytes() - before < 20e6


def test_a_body_in_the_smallest_chunks_is_refused(api: Api) -> None:
    assert b'"code": "head_too_large"' in replies(api, [CHUNKED, *[b"1\r\n \r\n" * 1000] * 100])


def test_a_body_in_small_chunks_is_taken(api: Api) -> None:
    body = b"%x\r\n%b\r\n" % (100, b" " * 100) * 10_000
    answer = replies(
        api, [POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n", body, b"2\r\n{}\r\n0\r\n\r\n"]
    )
    assert b'"code": "malformed_json"' not in answer
    assert b'"code": "head_too_large"' not in answer
    assert answer.startswith(b"HTTP/1.1 4")


def test_a_head_must_arrive_in_time(odd: Api) -> None:
    require_problem(replies(odd, [GET]), 408, "too_slow")
    assert replies(odd, []) == b""  # a client that sends nothing gets no answer
    assert replies(odd, [b"\r\n" * 10]) == b""


def test_the_next_head_must_arrive_in_time(odd: Api) -> None:
    answer = replies(odd, [GET + b"\r\n" + b"GET "])
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in answer


def test_the_rest_of_a_body_that_nobody_wants_must_arrive_in_time(odd: Api) -> None:
    answer = replies(odd, [b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{"])
    assert answer.startswith(b"HTTP/1.1 404")
    assert answer.count(b"HTTP/1.1") == 1


def test_only_so_many_requests_may_run_ahead(api: Api) -> None:
    answer = replies(api, [(GET + b"\r\n") * 10_000])
    assert b"ahead of their answers" in answer
    assert answer.count(b"HTTP/1.1 200") <= MOST_PIPELINED + 1
    few = replies(api, [(GET + b"\r\n") * MOST_PIPELINED + GET + b"Connection: close\r\n\r\n"])
    assert few.count(b"HTTP/1.1 200") == MOST_PIPELINED + 1


def test_an_answer_to_a_connection_that_was_closed_is_no_mistake(api: Api) -> None:
    before = api.log.stat().st_size
    for _ in range(20):
        assert b"ahead of their answers" in replies(api, [b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100])
    api.client.get("/readyz")  # by now the others have been answered
    assert "Traceback" not in api.log.read_text()[before:]


def test_only_so_many_connections_are_open(odd: Api) -> None:
    with ExitStack() as stack:
        crowd = [stack.enter_context(connect(odd)) for _ in range(40)]
        answers = [all_of(connection) for connection in crowd]
    assert sum(b'"code": "overloaded"' in answer for answer in answers) >= 19
    assert eventually(lambda: replies(odd, [GET + b"Connection: close\r\n\r\n"]).startswith(b"HTTP/1.1 200"))


@pytest.mark.parametrize("upgrade", [b"websocket", b"h2c", b"x"])
def test_another_protocol_is_not_spoken(api: Api, upgrade: bytes) -> None:
    head = GET + b"Connection: Upgrade, close\r\nUpgrade: " + upgrade + b"\r\n\r\n"
    assert replies(api, [head]).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("framing", [b"Content-Length: %d\r\n", b"Transfer-Encoding: chunked\r\n", b""])
@pytest.mark.parametrize("upgrade", [b"websocket", b"h2c"])
def test_nothing_is_smuggled_behind_an_upgrade(api: Api, framing: bytes, upgrade: bytes) -> None:
    hidden = GET + b"\r\n"
    declared = framing % len(hidden) if b"%d" in framing else framing
    with connect(api) as connection:
        connection.sendall(GET + declared + b"Connection: Upgrade\r\nUpgrade: " + upgrade + b"\r\n\r\n")
        answer = connection.recv(65_536)  # so that what follows is a segment of its own
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(hidden)
        answer += all_of(connection)
    assert answer.count(b"HTTP/1.1 ") == 1
    if framing:
        require_problem(answer, 400, "bad_request")
    else:
        assert answer.startswith(b"HTTP/1.1 200")


def test_a_refusal_is_logged_once_and_on_one_line(odd: Api) -> None:
    answer = replies(odd, [b"non\x1b[31msense\r\n\r\n"])
    require_problem(answer, 400, "bad_request")
    request_id = json.loads(answer.partition(b"\r\n\r\n")[2])["request_id"]
    (line,) = eventually(lambda: [line for line in odd.log.read_text().splitlines() if request_id in line])
    fields = json.loads(line)
    assert (fields["request_id"], fields["status"]) == (request_id, 400)
    assert fields["message"].startswith("refused: bad_request")
