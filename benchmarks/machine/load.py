"""The whole service under more load than it can take, for minutes: queue and memory stay bounded, nothing is lost."""

from __future__ import annotations

import argparse
import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.machine.connection import HttpAnswer, HttpConnection
from benchmarks.machine.deployment import Deployment
from benchmarks.machine.growth import growth
from benchmarks.machine.requests import ClientRequest, RequestStream
from benchmarks.result import Figure, Result
from smoothcert.certification import ENDED

CLOSED_CLIENTS = 48
"""The clients that measure the capacity: more than a worker has slots, so that it is busy and its queue is short."""
TRIES = 3
"""The requests after which a client gives up, while others keep coming."""
LOOK_SECONDS = 10.0
"""The time after which a client looks again at its certification."""
LATE_CLIENTS = 60
"""The clients that come together at the end, to a full queue, and must get in at the time of their Retry-After."""
ANSWER_SECONDS = 60.0
"""The time after which a request without an answer counts as hanging."""
END_SECONDS = 1800.0
"""The time after which a certification that was accepted and has not ended counts as lost."""
RESULT_TTL = 30
"""The seconds for which results are kept: few enough for a steady state by the middle of the run."""
REPORT_SECONDS = 15.0
"""The time between two lines of progress, and two measurements of memory."""
MEGABYTE = 1 << 20
ALLOCATED = "server's allocator"
"""What the server has allocated, beside what is resident: the difference is the fragmentation of its heap."""
GROWTH = {"server": 1.02, ALLOCATED: 1.02}
"""The goal for memory in the last fifth of the run over that in its middle, when the queue has long been full."""
USUAL_GROWTH = 1.05
"""The same for the processes of Python."""
TIMES = ("created_at", "started_at", "finished_at")
console = Console(stderr=True, highlight=False)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=10.0, help="the time during which clients come")
    parser.add_argument("--times", type=float, default=2.0, help="the rate of clients, in capacities of the service")
    parser.add_argument("--queue", type=int, default=300, help="certifications that may wait")
    parser.add_argument("--seed", type=int, default=1)


def run(options: argparse.Namespace) -> Result:
    console.print("starting a server, the API and a worker ...", style="dim")
    with Deployment(queue_length=options.queue, result_ttl=RESULT_TTL) as deployment:
        load = Load(deployment, RequestStream(options.seed))
        asyncio.run(load.run(options.minutes * 60, options.times, options.queue))
        return load.report(options)


@dataclass
class Load:
    """One run and its observations."""

    deployment: Deployment
    stream: RequestStream
    capacity: float = 0.0
    answers: Counter[int] = field(default_factory=Counter)
    """The number of answers by status."""
    wrong: list[str] = field(default_factory=list)
    """Everything that must not happen, in a sentence each."""
    ended: Counter[str] = field(default_factory=Counter)
    """The number of accepted certifications by final status."""
    accepted: int = 0
    refused: int = 0
    given_up: int = 0
    asked_again: list[int] = field(default_factory=list)
    """The refusals of each late client until it was accepted, for clients that were refused at all."""
    waits: list[float] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)
    longest_queue: int = 0
    memory: list[dict[str, int]] = field(default_factory=list)
    coming: bool = True
    """Whether new clients come."""
    _idle: list[HttpConnection] = field(default_factory=list)

    async def run(self, seconds: float, times: float, queue: int) -> None:
        """Measure the capacity, send more than that, then a last wave, and wait for every certification."""
        self.capacity = await self._measure_capacity(min(60.0, seconds))
        if not self.capacity:
            raise ValueError("no request ended while the capacity was measured: give more --minutes")
        rate = times * self.capacity
        console.print(f"capacity {self.capacity:.1f} requests/s; now {rate:.1f} for {seconds:.0f} s", style="dim")
        self.answers.clear()
        watching = asyncio.create_task(self._watch(queue))
        async with asyncio.TaskGroup() as clients:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                clients.create_task(self._client(next(self.stream)))
                await asyncio.sleep(self.stream.pause(rate))
            self.coming = False
            console.print(f"a last {LATE_CLIENTS} come, all at once; then all certifications are awaited", style="dim")
            for request in islice((each for each in self.stream if each.kind == "certify"), LATE_CLIENTS):
                clients.create_task(self._client(request))
        watching.cancel()

    async def _measure_capacity(self, seconds: float) -> float:
        """The requests per second of a service that is busy and not overloaded; the first third is left out."""
        begun, done = time.monotonic(), 0
        busy, end = begun + seconds / 3, begun + seconds

        async def client() -> None:
            nonlocal done
            while time.monotonic() < end:
                await self._client(next(self.stream), look=0.05)
                done += busy < time.monotonic() < end

        async with asyncio.TaskGroup() as clients:
            for _ in range(CLOSED_CLIENTS):
                clients.create_task(client())
        self.accepted, self.ended = 0, Counter()
        self.waits.clear()
        self.durations.clear()
        return done / (end - busy)

    # --- one client

    async def _client(self, request: ClientRequest, look: float = LOOK_SECONDS) -> None:
        if request.kind == "bad":
            answer = await self._ask("POST", "/v1/certifications", request.body)
            if not 400 <= answer.status < 500:
                self.wrong.append(f"a bad request was answered with {answer.status}")
            return
        key = f"Idempotency-Key: {uuid.uuid4()}\r\n"
        posted = await self._submit(request.body, key)
        if posted is None:
            self.given_up += 1
            return
        self.accepted += 1
        if request.kind == "repeat":
            again = await self._ask("POST", "/v1/certifications", request.body, key)
            if again.status not in (200, 202) or again.payload["id"] != posted["id"]:
                self.wrong.append(f"the same Idempotency-Key gave {again.status} {again.payload.get('id')}")
        if request.kind == "cancel":
            await asyncio.sleep(min(look, 2.0))
            await self._ask("POST", f"/v1/certifications/{posted['id']}/cancel")
        self._note(await self._at_its_end(posted, look))

    async def _submit(self, body: bytes, key: str) -> Any | None:
        """The certification, or None if the client gave up; a refused client asks again after its Retry-After."""
        tries, refused_late = 0, 0
        while True:
            answer = await self._ask("POST", "/v1/certifications", body, key)
            tries += 1
            if answer.status in (200, 202):
                if refused_late:
                    self.asked_again.append(refused_late)
                return answer.payload
            if answer.status != 429 or "retry-after" not in answer.headers:
                self.wrong.append(f"a good request was answered with {answer.status}: {answer.payload}")
                return None
            self.refused += 1
            refused_late += not self.coming
            if self.coming and tries == TRIES:
                return None
            await asyncio.sleep(int(answer.headers["retry-after"]))

    async def _at_its_end(self, certification: Any, look: float) -> Any:
        deadline = time.monotonic() + END_SECONDS
        while certification["status"] not in ENDED and time.monotonic() < deadline:
            await asyncio.sleep(look)
            answer = await self._ask("GET", f"/v1/certifications/{certification['id']}")
            if answer.status != 200:
                self.wrong.append(f"{certification['id']} was accepted, then {answer.status}")
                return certification
            certification = answer.payload
        return certification

    def _note(self, certification: Any) -> None:
        self.ended[certification["status"]] += 1
        certificates, images = len(certification["certificates"]), certification["progress"]["images_total"]
        if certification["status"] == "succeeded" and certificates != images:
            self.wrong.append(f"{certification['id']} has {certificates} certificates for {images} images")
        moments = [certification[name] and datetime.fromisoformat(certification[name]) for name in TIMES]
        if all(moments):
            created, started, finished = moments
            self.waits.append((started - created).total_seconds())
            self.durations.append((finished - started).total_seconds())

    async def _ask(self, method: str, path: str, body: bytes = b"", headers: str = "") -> HttpAnswer:
        connection = self._idle.pop() if self._idle else await HttpConnection.open(self.deployment.port)
        async with asyncio.timeout(ANSWER_SECONDS):
            try:
                answer = await connection.ask(method, path, body, headers)
            except (asyncio.IncompleteReadError, ConnectionError):  # the service closed it while it was idle
                connection = await HttpConnection.open(self.deployment.port)
                answer = await connection.ask(method, path, body, headers)
        self._idle.append(connection)
        self.answers[answer.status] += 1
        return answer

    # --- measurements meanwhile

    async def _watch(self, most: int) -> None:
        begun = time.monotonic()
        while True:
            if self.coming:
                resident = {name: self.deployment.resident_bytes(name) for name in self.deployment.pids}
                self.memory.append({**resident, ALLOCATED: self.deployment.allocated_bytes()})
            waiting = self.deployment.waiting()
            self.longest_queue = max(self.longest_queue, waiting)
            if waiting > most:
                self.wrong.append(f"{waiting} certifications wait, and at most {most} may")
            answers = ", ".join(f"{status}: {count}" for status, count in sorted(self.answers.items()))
            ended = sum(self.ended.values())
            counts = f"{waiting} wait, {self.accepted} accepted, {ended} ended"
            console.print(f"{time.monotonic() - begun:4.0f} s  {counts}; {answers}", style="dim")
            await asyncio.sleep(REPORT_SECONDS)

    # --- the result

    def report(self, options: argparse.Namespace) -> Result:
        errors = sum(count for status, count in self.answers.items() if status >= 500)
        lost = self.accepted - sum(self.ended[status] for status in ENDED)
        rows: list[tuple[str, object, object]] = [
            ("capacity, requests/s", self.capacity, ""),
            ("answers", sum(self.answers.values()), self._statuses()),
            ("accepted", self.accepted, ", ".join(f"{count:,} {how}" for how, count in self.ended.most_common())),
            ("refused with 429", self.refused, f"{self.given_up:,} gave up after {TRIES} tries"),
            ("refused when nobody else came", len(self.asked_again), f"asked again: {_spread(self.asked_again)} times"),
            ("longest queue", self.longest_queue, f"{options.queue} may wait"),
            ("wait in the queue, s", np.mean(self.waits), _spread(self.waits)),
            ("duration, s", np.mean(self.durations), _spread(self.durations)),
        ]
        growths = {name: self._growth(name) for name in self.memory[0]}
        for name, (middle, last) in growths.items():
            rows.append((f"memory of the {name}, MB: middle, end", round(middle, 1), round(last, 1)))
        figures = [
            Figure("accepted and not ended", lost, at_most=0),
            Figure("failed", self.ended["failed"], at_most=0),
            Figure("answers 5xx", errors, at_most=0),
            Figure("anything else that must not be", len(self.wrong), at_most=0),
            Figure("most that waited / may wait", self.longest_queue / options.queue, at_most=1),
            Figure(
                "asked again, as told, when nobody else came: mean", float(np.mean(self.asked_again or 0)), at_most=2
            ),
            *(
                Figure(f"memory of the {name}, end / middle", b / a, at_most=GROWTH.get(name, USUAL_GROWTH))
                for name, (a, b) in growths.items()
            ),
        ]
        return Result(
            name="load",
            compares=f"{options.minutes:g} minutes of mixed requests at {options.times:g} times the capacity",
            columns=("what", "mean or number", "more"),
            rows=rows,
            figures=figures,
            notes=(
                "Clients come at random moments at a fixed rate, whatever becomes of those before them. Of a hundred "
                "clients, 76 certify, 8 cancel their request, 6 send it twice with one Idempotency-Key, and 10 send "
                "something bad.",
                "Clients, API, server and worker share the cores.",
                *self.wrong[:10],
            ),
        )

    def _statuses(self) -> str:
        return ", ".join(f"{count:,} x {status}" for status, count in sorted(self.answers.items()))

    def _growth(self, name: str) -> tuple[float, float]:
        """The megabytes of a process in the middle of the run, and at its end."""
        return growth([each[name] / MEGABYTE for each in self.memory])


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    return ", ".join(f"p{q} {np.percentile(values, q):.3g}" for q in (50, 95, 99))
