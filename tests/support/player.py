"""A worker that tests play by hand, with the same calls of `store` as a real one."""

from __future__ import annotations

import io
import secrets
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import redis

from smoothcert.certificate import Certificate
from smoothcert.certification import Progress, Status
from smoothcert.noise import Gaussian
from smoothcert.problem import Failure
from smoothcert.procedures import PROCEDURES, run
from smoothcert.published import EnsembleCard
from smoothcert.question import Question
from smoothcert.request import CertificationRequest
from store import bookkeeping, keys, presence, waiting
from store.presence import Presence, Speed
from store.record import Record
from store.statistics import bucket
from store.transitions import endings, lease
from tests.service import eventually

TTL = 3600
SHAPE = (3, 4, 5)
"""The channels, height and width of images; they all differ, so that no two can be mixed up unnoticed."""
SIGMA = 0.25
CLASSES = ("cat", "dog", "ship")
ROWS = 64
"""The rows of a slice that it announces."""


class Player:
    """A worker with its own pool and ensemble, which does only what a test calls."""

    def __init__(self, url: str, **card: Any) -> None:
        self.redis: Any = redis.Redis.from_url(url, socket_timeout=None)
        self.pool = f"played-{secrets.token_hex(4)}"
        self.name = f"player-{secrets.token_hex(4)}"
        defaults = {
            "name": f"ensemble-{secrets.token_hex(4)}",
            "digest": secrets.token_hex(32),
            "members": ("a" * 64, "b" * 64),
            "classes": CLASSES,
            "input_shape": SHAPE,
            "noise": Gaussian(SIGMA),
            "voting": "soft",
            "votings": ("soft", "hard"),
            "procedures": PROCEDURES.names,
        }
        self.card = EnsembleCard.model_validate({**defaults, **card})
        self.queue = bookkeeping.queue_name(self.pool)

    @property
    def ensemble(self) -> str:
        return self.card.name

    def announce(self, *, at: float | None = None, rate: float | None = None, ttl: int = TTL) -> None:
        """Send a heartbeat."""
        now = at or time.time()
        beat = Presence(
            name=self.name,
            pool=self.pool,
            device="cpu",
            ensembles=(self.card,),
            live=0,
            fill=0.75,
            speeds={self.ensemble: Speed(evaluations_per_second=rate, rows=ROWS)} if rate else {},
            beat_at=now,
        )
        self._send(presence.announce(beat, ttl=ttl))

    def leave(self) -> None:
        self._send(presence.leave(self.name))

    def forget(self) -> None:
        """Remove its ensemble from those that are offered."""
        self.leave()
        self.redis.hdel(keys.ENSEMBLES, f"{self.pool}/{self.ensemble}")

    def _send(self, commands: list[Any]) -> None:
        for command in commands:
            self.redis.execute_command(*command)

    def waiting(self) -> list[str]:
        return [each.decode() for each in self.redis.lrange(bookkeeping.waiting_key(self.queue), 0, -1)]

    def record(self, certification: str) -> Record:
        found = Record.read(self.redis.hgetall(keys.record(certification)))
        assert found is not None
        return found

    def images(self, certification: str) -> npt.NDArray[Any]:
        stored: npt.NDArray[Any] = np.load(io.BytesIO(self.redis.get(keys.images(certification))), allow_pickle=False)
        return stored

    def take(self) -> Record:
        """The next certification that waits."""
        call = waiting.take(self.pool, most=1, most_bytes=1, busy=False, share=1, held={})
        (certification,) = eventually(lambda: waiting.taken(self.redis.eval(*call.arguments))[1], "a certification")
        return self.record(certification)

    def begin(self, record: Record) -> Record:
        """Begin a certification, and return the record, which is then running."""
        _, call = lease.begin(record, self.name, now=time.time(), ttl=60)
        assert self.redis.eval(*call.arguments)[0] == 1, "could not begin"
        return self.record(record.id)

    def save(self, record: Record, certificates: dict[int, str], **fields: Any) -> None:
        done = record.done + len(certificates)
        call = lease.save(
            record, record.execution, certificates=certificates, progress=progress(record, done), **fields
        )
        assert self.redis.eval(*call.arguments)[0] == 1, "could not save"

    def finish(
        self,
        record: Record,
        certificates: dict[int, str] | None = None,
        *,
        status: Status = "succeeded",
        error: Failure | None = None,
        ttl: int = TTL,
        now: float | None = None,
    ) -> None:
        """End a certification, with a certificate for each image unless others are given."""
        if certificates is None:
            certificates = {index: certificate(record, index) for index in range(record.images)}
        done, now = record.done + len(certificates), now or time.time()
        call = endings.finish(
            record,
            record.execution,
            status,
            now=now,
            ttl=ttl,
            certificates=certificates,
            progress=progress(record, done),
            error=error,
            tally={f"certifications:{status}": 1, "samples": 10.0, **bucket("duration", 0.2), **bucket("wait", 0.02)},
        )
        assert self.redis.eval(*call.arguments)[0] == 1, "could not finish"

    def play(self) -> Record:
        """Take a certification and bring it to its end."""
        record = self.begin(self.take())
        self.finish(record)
        return record


def progress(record: Record, done: int) -> str:
    return Progress(
        images_done=done, images_total=record.images, samples=100 * done, evaluations=200 * done
    ).model_dump_json()


def certificate(record: Record, index: int) -> str:
    """A certificate that verifies: every sample fell on class 1."""
    request = CertificationRequest.model_validate_json(record.request)
    question = Question.of(request, images=record.images)
    verdict = run(question.start(), lambda n: np.array([0, n, 0, 0]))
    return Certificate.of(
        verdict,
        index=index,
        class_name=CLASSES[1],
        target_radius=question.radius,
        alpha=question.alpha,
        beta=question.beta,
        noise=question.noise,
        procedure=question.procedure,
        evaluations=2 * verdict.samples,
    ).model_dump_json()
