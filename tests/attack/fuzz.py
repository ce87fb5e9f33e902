"""Damaged requests against a whole running service: `python -m tests.attack.fuzz --cases N --seed S [--out FILE]`.

The cases are files of every accepted format, and what they are wrapped in, with bits flipped and pieces cut out,
doubled, swapped or filled with zeros; schemathesis then adds requests of its own from the OpenAPI document. No request
may be answered with a 5xx or stay without an answer, and no worker may die. Each case is a function of the seed, its
kind and its number.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import hypothesis
import numpy as np
import numpy.typing as npt
import requests
from hypothesis.errors import Unsatisfiable
from PIL import Image
from schemathesis import GenerationMode
from schemathesis.core.failures import FailureGroup

from tests.service import eventually
from tests.support.api import encoded, npy, tensor
from tests.support.attacked import QUESTION, URL, Whole
from tests.support.document import excluded_checks, schema
from tests.support.worker_networks import SHAPE

PATIENCE = 60.0
"""The seconds without an answer after which a request counts as hanging."""
LOOK_EVERY = 250
"""The number of cases between two checks that a good image is still certified."""
BOUNDARY = b"----boundary"
NPY = "application/x-npy"
FORM = f"multipart/form-data; boundary={BOUNDARY.decode()}"


@dataclass(frozen=True)
class Posted:
    body: bytes
    kind: str
    query: dict[str, str] = field(default_factory=dict)


@dataclass
class Tally:
    """The outcomes of the cases of one kind."""

    kind: str
    statuses: Counter[str] = field(default_factory=Counter)
    hangs: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Good images in between that were not certified, and answers that the document does not allow."""

    def count(self, case: str, answer: Callable[[], str]) -> None:
        try:
            status = answer()
        except (httpx2.TimeoutException, TimeoutError):
            self.hangs.append(case)
            return
        self.statuses[f"{status[0]}xx" if status else "closed"] += 1

    @property
    def cases(self) -> int:
        return sum(self.statuses.values()) + len(self.hangs)

    @property
    def clean(self) -> bool:
        return not (self.statuses["5xx"] or self.hangs or self.wrong)


# --- the damage


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The data with one to three kinds of damage."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice((flipped, flipped, flipped, cut, doubled, swapped, blanked, grown))(bytearray(data), rng)
    return data


def flipped(data: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 8)) if data else 0):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def cut(data: bytearray, rng: random.Random) -> bytes:
    return bytes(data[: rng.randrange(len(data) + 1)])


def doubled(data: bytearray, rng: random.Random) -> bytes:
    start, end = _piece(data, rng)
    return bytes(data[:end] + data[start:])


def swapped(data: bytearray, rng: random.Random) -> bytes:
    start, end = _piece(data, rng)
    middle = rng.randint(start, end)
    return bytes(data[:start] + data[middle:end] + data[start:middle] + data[end:])


def blanked(data: bytearray, rng: random.Random) -> bytes:
    start, end = _piece(data, rng)
    return bytes(data[:start] + bytes([rng.choice((0, 0xFF, 0x0A))]) * (end - start) + data[end:])


def grown(data: bytearray, rng: random.Random) -> bytes:
    start, _ = _piece(data, rng)
    return bytes(data[:start] + rng.randbytes(rng.choice((1, 2, 4, 64))) + data[start:])


def _piece(data: bytearray, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 4, 16, 64)))


# --- what is damaged


def picture(rng: random.Random, file: str) -> bytes:
    rows = np.frombuffer(rng.randbytes(SHAPE[1] * SHAPE[2] * 3), np.uint8).reshape(SHAPE[1], SHAPE[2], 3)
    options = {"JPEG": [{}, {"progressive": True}], "WEBP": [{}, {"lossless": True}]}.get(file, [{}])
    return encoded(Image.fromarray(rows), file, **rng.choice(options))


def pixels(rng: random.Random) -> npt.NDArray[Any]:
    values = np.frombuffer(rng.randbytes(int(np.prod(SHAPE))), np.uint8).reshape(SHAPE)
    return values if rng.random() < 0.5 else (values / 255).astype(rng.choice((np.float32, np.float64)))


def form(*images: bytes) -> bytes:
    parts = [b'name="request"\r\n\r\n' + json.dumps(QUESTION).encode()]
    parts += [b'name="images"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n' + image for image in images]
    lines = b"".join(b"--%b\r\nContent-Disposition: form-data; %b\r\n" % (BOUNDARY, part) for part in parts)
    return lines + b"--%b--\r\n" % BOUNDARY


def damaged_file(file: str) -> Callable[[random.Random], Posted]:
    return lambda rng: Posted(form(damaged(picture(rng, file), rng)), FORM)


def damaged_npy(rng: random.Random) -> Posted:
    return Posted(damaged(npy(pixels(rng)[None]), rng), NPY, {"request": json.dumps(QUESTION)})


def damaged_tensor(rng: random.Random) -> Posted:
    array = pixels(rng)
    image = tensor(np.frombuffer(flipped(bytearray(array.tobytes()), rng), array.dtype).reshape(SHAPE))
    if rng.random() < 0.3:
        image["data"] = damaged(image["data"].encode(), rng).decode("latin-1")
    if rng.random() < 0.2:
        image[rng.choice(("dtype", "shape"))] = rng.choice(("float16", [], [3, 8], [2**40] * 3, [3, 8, 8, 1], -1, None))
    return Posted(json.dumps({**QUESTION, "images": [image]}).encode(), "application/json")


def damaged_json(rng: random.Random) -> Posted:
    return Posted(damaged(json.dumps({**QUESTION, "images": [tensor(pixels(rng))]}).encode(), rng), "application/json")


def damaged_form(rng: random.Random) -> Posted:
    return Posted(damaged(form(picture(rng, "PNG"), picture(rng, "JPEG")), rng), FORM)


KINDS: dict[str, Callable[[random.Random], Posted]] = {
    "PNG": damaged_file("PNG"),
    "JPEG": damaged_file("JPEG"),
    "WebP": damaged_file("WEBP"),
    "npy": damaged_npy,
    "tensor": damaged_tensor,
    "JSON": damaged_json,
    "form": damaged_form,
}


def damaged_http(rng: random.Random) -> bytes:
    """A whole request whose head is damaged as well."""
    body = form(picture(rng, "PNG"))
    head = (
        f"POST {URL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return damaged(head.encode(), rng) + body


# --- the attack


def attack(whole: Whole, *, cases: int, seed: int) -> list[Tally]:
    """Send this number of cases of each kind, and check meanwhile that the service works."""
    tallies = []
    for kind, make in KINDS.items():
        tally = Tally(kind)
        for number in _numbers(cases, whole, tally):
            posted = make(random.Random(f"{seed}/{kind}/{number}"))
            tally.count(f"{kind}/{number}", partial(_post, whole.client, posted))
        tallies.append(tally)
    tally = Tally("HTTP")
    for number in _numbers(cases, whole, tally):
        sent = damaged_http(random.Random(f"{seed}/HTTP/{number}"))
        tally.count(f"HTTP/{number}", partial(_send, whole.api.port, sent))
    return [*tallies, tally]


def _numbers(cases: int, whole: Whole, tally: Tally) -> Iterator[int]:
    for number in range(cases):
        yield number
        if (number % LOOK_EVERY == 0 or number == cases - 1) and not whole.certifies():
            tally.wrong.append(f"after {tally.kind}/{number} a good image was not certified")


def _post(client: httpx2.Client, posted: Posted) -> str:
    headers = {"Content-Type": posted.kind}
    answer = client.post(URL, content=posted.body, params=posted.query, headers=headers, timeout=PATIENCE)
    return str(answer.status_code)


def _send(port: int, sent: bytes) -> str:
    """The status; an empty text if the service closed the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65_536)
        except (BrokenPipeError, ConnectionResetError):
            return ""
    return answer.split(b" ", 2)[1].decode() if answer else ""


def ends(whole: Whole) -> Counter[str]:
    """The number of accepted certifications by how they ended."""
    client = whole.client
    running = ("queued", "running", "canceling")
    eventually(lambda: not any(_ids(client, status) for status in running), "the end of all", patience=600)
    return Counter(
        {status: len(list(_ids(client, status))) for status in ("succeeded", "failed", "canceled", "expired")}
    )


def _ids(client: httpx2.Client, status: str) -> list[str]:
    found, cursor = [], ""
    while True:
        page = client.get(
            URL, params={"status": status, "limit": "100", **({"cursor": cursor} if cursor else {})}
        ).json()
        found += [each["id"] for each in page["data"]]
        if not (cursor := page["next_cursor"]):
            return found


# --- what the document allows, and what it does not


def schema_attack(whole: Whole, *, cases: int, seed: int) -> Tally:
    """Send this number of schemathesis' cases to each operation, half of them valid; answers must be as documented."""
    tally = Tally("OpenAPI")
    payload = {**QUESTION, "images": [tensor(np.zeros(SHAPE, np.uint8))]}
    ended = whole.client.post(URL, json=payload, headers={"Prefer": "wait=60"}).json()["id"]
    for found in schema().get_all_operations():
        for mode in GenerationMode:
            _send_cases(found.ok(), mode, whole, tally, certification=ended, cases=cases // 2, seed=seed)
    if not whole.certifies():
        tally.wrong.append("after all of them a good image was not certified")
    return tally


def _send_cases(
    operation: Any, mode: GenerationMode, whole: Whole, tally: Tally, *, certification: str, cases: int, seed: int
) -> None:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=cases,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        if mode is GenerationMode.POSITIVE and "id" in case.path_parameters and operation.method != "delete":
            case.path_parameters["id"] = certification
        try:
            answer = case.call(base_url=f"http://127.0.0.1:{whole.api.port}", timeout=PATIENCE)
        except requests.Timeout:
            tally.hangs.append(operation.label)
            return
        tally.statuses[f"{answer.status_code // 100}xx"] += 1
        try:
            case.validate_response(answer, excluded_checks=excluded_checks(operation))
        except FailureGroup as failures:
            tally.wrong += [f"{operation.label}: {failure}" for failure in failures.exceptions]

    with suppress(Unsatisfiable):  # a document that allows everything leaves nothing that is not allowed
        send()


# --- the command


def table(tallies: list[Tally]) -> str:
    columns = ("2xx", "4xx", "closed", "5xx")
    lines = ["| damaged | cases | answered 2xx | answered 4xx | closed | 5xx | hangs | wrong |", "|---|" + "--:|" * 7]
    for tally in tallies:
        counts = [f"{tally.statuses[each]:,}" for each in columns]
        lines.append(
            f"| {tally.kind} | {tally.cases:,} | {' | '.join(counts)} | {len(tally.hangs)} | {len(tally.wrong)} |"
        )
    total = sum((tally.statuses for tally in tallies), Counter[str]())
    counts = [f"{total[each]:,}" for each in columns]
    sums = [sum(len(getattr(tally, name)) for tally in tallies) for name in ("hangs", "wrong")]
    lines.append(f"| all | {sum(tally.cases for tally in tallies):,} | {' | '.join(counts)} | {sums[0]} | {sums[1]} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack.fuzz")
    parser.add_argument(
        "--cases", type=int, default=200, help="of each kind of damage; a quarter for each operation of the document"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write the table into this file")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    limits = {"queue_length": 1_000_000, "active_certifications": 1_000_000, "head_seconds": 5, "request_seconds": 10}
    with tempfile.TemporaryDirectory() as folder, Whole(Path(folder), **limits) as whole:
        worker = whole.worker.pid
        before = whole.api.resident_bytes()
        tallies = attack(whole, cases=options.cases, seed=options.seed)
        tallies.append(schema_attack(whole, cases=options.cases // 4, seed=options.seed))
        ended = ends(whole)
        deaths = 0 if whole.worker.poll() is None and whole.worker.pid == worker and whole.certifies() else 1
        tracebacks = sum("traceback" in json.loads(line) for line in whole.api.log.read_text().splitlines())
        grown_by = (whole.api.resident_bytes() - before) / 1e6
    how = ", ".join(f"{count:,} {status}" for status, count in ended.items() if count)
    text = f"""# Damaged requests against the running service

`python -m tests.attack.fuzz --cases {options.cases} --seed {options.seed}`: Valkey, one API process, one worker; \
{time.monotonic() - started:,.0f} s.

{table(tallies)}

`closed`: the sender of `HTTP` ends its side at once, so a request that the damage left whole, or unfinished, is dropped
without an answer. `wrong`: an answer that the OpenAPI document does not allow, or a good image in between that was not
certified.

Accepted and brought to an end: {ended.total():,} ({how}). Deaths of the worker: {deaths}. Exceptions in the log: \
{tracebacks}. The API's memory grew by {grown_by:.0f} MB.
"""
    print(text)
    for tally in tallies:
        for each in (*tally.hangs, *tally.wrong):
            print(f"{tally.kind}: {each}")
    if options.out:
        options.out.write_text(text)
    return 0 if all(tally.clean for tally in tallies) and not deaths and not tracebacks else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
