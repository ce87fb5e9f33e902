"""The whole service under more than it can do, for minutes: bounded, honest about it, nothing lost."""

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

from benchmarks.machine.connection import Answer, Connection
from benchmarks.machine.deployment import Deployment
from benchmarks.machine.traffic import Errand, Traffic
from benchmarks.report import Figure, Report
from smoothcert.certification import ENDED

CLOSED_CLIENTS = 48
"""Clients that ask one after the other: more than a worker has slots, so that it is busy and its queue is short."""
TRIES = 3
"""So often a client asks while others keep coming, then it gives up."""
LOOK_SECONDS = 10.0
LATE_CLIENTS = 60
"""Come together at the very end, to a full queue and with nobody after them: do they get in when they were told?"""
ANSWER_SECONDS = 60.0
"""Without an answer for so long, a request hangs."""
END_SECONDS = 1800.0
"""What was accepted and has not ended by then is lost."""
RESULT_TTL = 30
"""Seconds: results are forgotten early enough for a steady state by the middle of the run."""
REPORT_SECONDS = 15.0
MEGABYTE = 1 << 20
GROWTH = 1.10
"""Of the memory in the last fifth of the run, against the one in the middle, when the queue has long been full."""
TIMES = ("created_at", "started_at", "finished_at")
console = Console(stderr=True, highlight=False)


def configure(parser: argparse.ArgumentParser) -> None:
    """How long, and how much."""
    parser.add_argument("--minutes", type=float, default=10.0, help="for so long clients come")
    parser.add_argument("--times", type=float, default=2.0, help="so many times the capacity that was measured before")
    parser.add_argument("--queue", type=int, default=300, help="certifications that may wait")
    parser.add_argument("--seed", type=int, default=1)


def run(options: argparse.Namespace) -> Report:
    """Measure the capacity, overload, let it finish."""
    console.print("starting a server, the API and a worker ...", style="dim")
    with Deployment(queue_length=options.queue, result_ttl=RESULT_TTL) as deployment:
        load = Load(deployment, Traffic(options.seed))
        asyncio.run(load.run(options.minutes * 60, options.times, options.queue))
        return load.report(options)


@dataclass
class Load:
    """One run, and what was seen."""

    deployment: Deployment
    traffic: Traffic
    capacity: float = 0.0
    answers: Counter[int] = field(default_factory=Counter)
    """By status."""
    wrong: list[str] = field(default_factory=list)
    """Whatever is not as it must be, in a sentence each."""
    ended: Counter[str] = field(default_factory=Counter)
    """Accepted certifications by how they ended."""
    accepted: int = 0
    refused: int = 0
    given_up: int = 0
    asked_again: list[int] = field(default_factory=list)
    """How often, until they got in, by those who were refused when nobody else came any more."""
    waits: list[float] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)
    longest_queue: int = 0
    memory: list[dict[str, int]] = field(default_factory=list)
    coming: bool = True
    """Whether new clients come."""
    _idle: list[Connection] = field(default_factory=list)

    async def run(self, seconds: float, times: float, queue: int) -> None:
        """The story."""
        self.capacity = await self._measure_capacity(min(60.0, seconds))
        rate = times * self.capacity
        console.print(f"capacity {self.capacity:.1f} requests/s; now {rate:.1f} for {seconds:.0f} s", style="dim")
        self.answers.clear()
        watching = asyncio.create_task(self._watch(queue))
        async with asyncio.TaskGroup() as clients:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                clients.create_task(self._client(next(self.traffic)))
                await asyncio.sleep(self.traffic.pause(rate))
            self.coming = False
            console.print(f"a last {LATE_CLIENTS} come, all at once; then all who came are waited for", style="dim")
            for errand in islice((each for each in self.traffic if each.kind == "certify"), LATE_CLIENTS):
                clients.create_task(self._client(errand))
        watching.cancel()

    async def _measure_capacity(self, seconds: float) -> float:
        """Requests per second of a service that is busy and not overloaded, once it has become so."""
        begun, done = time.monotonic(), 0
        busy, end = begun + seconds / 3, begun + seconds

        async def client() -> None:
            nonlocal done
            while time.monotonic() < end:
                await self._client(next(self.traffic), look=0.05)
                done += busy < time.monotonic() < end

        async with asyncio.TaskGroup() as clients:
            for _ in range(CLOSED_CLIENTS):
                clients.create_task(client())
        self.accepted, self.ended = 0, Counter()
        self.waits.clear()
        self.durations.clear()
        return done / (end - busy)

    # --- one client

    async def _client(self, errand: Errand, look: float = LOOK_SECONDS) -> None:
        if errand.kind == "bad":
            answer = await self._ask("POST", "/v1/certifications", errand.body)
            if not 400 <= answer.status < 500:
                self.wrong.append(f"a bad request was answered with {answer.status}")
            return
        key = f"Idempotency-Key: {uuid.uuid4()}\r\n"
        posted = await self._submit(errand.body, key)
        if posted is None:
            self.given_up += 1
            return
        self.accepted += 1
        if errand.kind == "repeat":
            again = await self._ask("POST", "/v1/certifications", errand.body, key)
            if again.status not in (200, 202) or again.said["id"] != posted["id"]:
                self.wrong.append(f"the same Idempotency-Key gave {again.status} {again.said.get('id')}")
        if errand.kind == "cancel":
            await asyncio.sleep(min(look, 2.0))
            await self._ask("POST", f"/v1/certifications/{posted['id']}/cancel")
        self._note(await self._at_its_end(posted, look))

    async def _submit(self, body: bytes, key: str) -> Any | None:
        """The certification, or None where the client gave up; asks again when it was told to."""
        tries, refused_late = 0, 0
        while True:
            answer = await self._ask("POST", "/v1/certifications", body, key)
            tries += 1
            if answer.status in (200, 202):
                if refused_late:
                    self.asked_again.append(refused_late)
                return answer.said
            if answer.status != 429 or "retry-after" not in answer.headers:
                self.wrong.append(f"a good request was answered with {answer.status}: {answer.said}")
                return None
            self.refused += 1
            refused_late += not self.coming
            if self.coming and tries == TRIES:
                return None
            await asyncio.sleep(int(answer.headers["retry-after"]))

    async def _at_its_end(self, said: Any, look: float) -> Any:
        deadline = time.monotonic() + END_SECONDS
        while said["status"] not in ENDED and time.monotonic() < deadline:
            await asyncio.sleep(look)
            answer = await self._ask("GET", f"/v1/certifications/{said['id']}")
            if answer.status != 200:
                self.wrong.append(f"{said['id']} was accepted, then {answer.status}")
                return said
            said = answer.said
        return said

    def _note(self, said: Any) -> None:
        self.ended[said["status"]] += 1
        if said["status"] == "succeeded" and len(said["certificates"]) != said["progress"]["images_total"]:
            self.wrong.append(f"{said['id']} has {len(said['certificates'])} certificates")
        moments = [said[name] and datetime.fromisoformat(said[name]) for name in TIMES]
        if all(moments):
            created, started, finished = moments
            self.waits.append((started - created).total_seconds())
            self.durations.append((finished - started).total_seconds())

    async def _ask(self, method: str, path: str, body: bytes = b"", headers: str = "") -> Answer:
        connection = self._idle.pop() if self._idle else await Connection.open(self.deployment.port)
        async with asyncio.timeout(ANSWER_SECONDS):
            try:
                answer = await connection.ask(method, path, body, headers)
            except (asyncio.IncompleteReadError, ConnectionError):  # closed while it was idle
                connection = await Connection.open(self.deployment.port)
                answer = await connection.ask(method, path, body, headers)
        self._idle.append(connection)
        self.answers[answer.status] += 1
        return answer

    # --- what is watched meanwhile

    async def _watch(self, most: int) -> None:
        begun = time.monotonic()
        while True:
            if self.coming:
                self.memory.append({name: self.deployment.resident_bytes(name) for name in self.deployment.pids})
            waiting = self.deployment.waiting()
            self.longest_queue = max(self.longest_queue, waiting)
            if waiting > most:
                self.wrong.append(f"{waiting} wait where {most} may")
            said = ", ".join(f"{status}: {count}" for status, count in sorted(self.answers.items()))
            ended = sum(self.ended.values())
            console.print(
                f"{time.monotonic() - begun:4.0f} s  {waiting} wait, {self.accepted} accepted, {ended} ended; {said}",
                style="dim",
            )
            await asyncio.sleep(REPORT_SECONDS)

    # --- what it comes to

    def report(self, options: argparse.Namespace) -> Report:
        """The table."""
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
            rows.append((f"memory of the {name}, MB: middle, end", round(middle), round(last)))
        figures = [
            Figure("accepted and not ended", lost, at_most=0),
            Figure("failed", self.ended["failed"], at_most=0),
            Figure("answers 5xx", errors, at_most=0),
            Figure("anything else that must not be", len(self.wrong), at_most=0),
            Figure("most that waited / may wait", self.longest_queue / options.queue, at_most=1),
            Figure(
                "asked again, as told, when nobody else came: mean", float(np.mean(self.asked_again or 0)), at_most=2
            ),
            *(Figure(f"memory of the {name}, end / middle", b / a, at_most=GROWTH) for name, (a, b) in growths.items()),
        ]
        return Report(
            name="load",
            compares=f"{options.minutes:g} minutes of mixed requests at {options.times:g} times the capacity",
            columns=("what", "mean or number", "more"),
            rows=rows,
            figures=figures,
            notes=(
                "Clients come at random moments at a fixed rate, whatever becomes of those before them. Of a hundred "
                "76 certify, 8 cancel what they asked, 6 ask twice with one Idempotency-Key, 10 send something bad.",
                "Clients, API, server and worker share the cores.",
                *self.wrong[:10],
            ),
        )

    def _statuses(self) -> str:
        return ", ".join(f"{count:,} x {status}" for status, count in sorted(self.answers.items()))

    def _growth(self, name: str) -> tuple[float, float]:
        """Megabytes in the middle and at the end."""
        seen = np.array([each[name] for each in self.memory]) / MEGABYTE
        fifth = max(1, len(seen) // 5)
        middle = len(seen) // 2
        return float(np.mean(seen[middle : middle + fifth])), float(np.mean(seen[-fifth:]))


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    return ", ".join(f"p{q} {np.percentile(values, q):.3g}" for q in (50, 95, 99))
