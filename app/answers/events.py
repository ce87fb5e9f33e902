"""A certification as server-sent events: its present state, then every change until it ends.

    status       a CertificationSummary, whenever the status or the place in the queue has changed
    certificate  a Certificate, in the order in which they are finished; its id counts the certificates sent so far
    progress     a Progress
    stall        a Stall, when its worker falls silent or no worker is alive; null when the work goes on
    completed    a CertificationSummary, at the end; its id is `end`

The order of finished certificates never changes, so the id of an event determines which certificates a client has
received, even when the client reconnects to another process of the API.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from app.answers import certifications
from app.archive.archive import KeptCertification
from app.http.errors import UnavailableError
from app.http.headers import END
from app.redis.listener import LOOK_SECONDS
from app.redis.queue import Queue
from app.redis.snapshot import News
from smoothcert.certification import Stall
from store.record import Record

KEEP_ALIVE_SECONDS = 10.0
"""Seconds of silence after which a comment is sent, so that proxies do not close the connection."""
KEEP_ALIVE = b": still here\n\n"
"""A comment in the format of server-sent events, which clients ignore."""


@dataclass
class EventWriter:
    """The events of one stream; it remembers what has been sent."""

    sent: int
    """The number of certificates that the client has received."""
    _state: tuple[str, int | None] | None = None
    _progress: str = ""
    _stall: Stall | None = None

    def events(self, news: News, stall: Stall | None = None) -> Iterator[bytes]:
        """The events for everything that has changed since the last call."""
        record, now = news.record, time.time()
        summary = certifications.summary(record, news.position, now=now)
        state = (record.status, news.position)
        if state != self._state and not record.ended:
            yield self._event("status", summary)
        for certificate in news.certificates:
            self.sent += 1
            yield self._event("certificate", certificate)
        if (progress := certifications.progress(record)) != self._progress:
            yield self._event("progress", progress)
        if stall != self._stall:
            self._stall = stall
            yield self._event("stall", stall.model_dump_json() if stall else "null")
        if record.ended and not news.more:
            yield _event("completed", summary, END)
        self._state, self._progress = state, progress

    def _event(self, name: str, data: str) -> bytes:
        return _event(name, data, str(self.sent))


def _event(name: str, data: str, id_: str) -> bytes:
    return f"event: {name}\nid: {id_}\ndata: {data}\n\n".encode()


def of_archived(kept: KeptCertification, *, sent: int) -> Iterator[bytes]:
    """The last events of a certification that is in the archive."""
    summary = json.loads(kept.text)
    for number, certificate in enumerate(summary.pop("certificates"), 1):
        if number > sent:
            yield _event("certificate", json.dumps(certificate), str(number))
    yield _event("completed", json.dumps(summary), END)


async def _stall(queue: Queue, record: Record) -> Stall | None:
    """Why a certification does not move, by a fresh look: a worker that came just now is not among the remembered."""
    if (await queue.staff.roster()).stall(record, now=time.time()) is None:
        return None
    return (await queue.staff.roster(fresh=True)).stall(record, now=time.time())


async def stream(queue: Queue, certification: str, *, sent: int) -> AsyncIterator[bytes]:
    """The events of an existing certification after the first `sent` certificates.

    The stream survives an outage of Redis: it waits, and continues when Redis answers again.
    """
    writer, last_at = EventWriter(sent), time.monotonic()
    async with queue.listener.watching(certification) as watch:
        while not queue.listener.changes.closed:
            try:
                news = await queue.news(certification, sent=writer.sent)
                stall = await _stall(queue, news.record) if news else None
            except UnavailableError:
                news = None
            else:
                if news is None:  # the certification was deleted
                    return
            for event in writer.events(news, stall) if news else ():
                last_at = time.monotonic()
                yield event
            if news and news.more:
                continue
            if news and news.record.ended:
                return
            if time.monotonic() - last_at >= KEEP_ALIVE_SECONDS:
                last_at = time.monotonic()
                yield KEEP_ALIVE
            await watch.changed(LOOK_SECONDS)
