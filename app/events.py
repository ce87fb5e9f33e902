"""A certification as server-sent events: what it is now, then all that happens, until it ends.

    status       a CertificationSummary, whenever the status or the place in the queue has changed
    certificate  a Certificate, in the order in which they are finished; its id is how many have been sent
    progress     a Progress
    completed    a CertificationSummary, in the end; its id is `end`

The order of certificates never changes once they are finished, so an id tells exactly which have been sent, to another
process of the API as well.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from app import answer
from app.http.errors import UnavailableError
from app.http.headers import END
from app.redis.queue import LOOK_SECONDS, News, Queue

KEEP_ALIVE_SECONDS = 10.0
KEEP_ALIVE = b": still here\n\n"


@dataclass
class Teller:
    """What one listener has been told, and what there is to tell."""

    told: int
    """Certificates."""
    _seen: tuple[str, int | None] | None = None
    _progress: str = ""

    def events(self, news: News) -> Iterator[bytes]:
        """Of what is new."""
        record, now = news.record, time.time()
        summary = answer.summary(record, news.position, now=now)
        seen = (record.status, news.position)
        if seen != self._seen and not record.ended:
            yield self._event("status", summary)
        for certificate in news.certificates:
            self.told += 1
            yield self._event("certificate", certificate)
        if (progress := answer.progress(record)) != self._progress:
            yield self._event("progress", progress)
        if record.ended:
            yield _event("completed", summary, END)
        self._seen, self._progress = seen, progress

    def _event(self, name: str, data: str) -> bytes:
        return _event(name, data, str(self.told))


def _event(name: str, data: str, id_: str) -> bytes:
    return f"event: {name}\nid: {id_}\ndata: {data}\n\n".encode()


async def stream(queue: Queue, certification: str, *, told: int) -> AsyncIterator[bytes]:
    """The events of a certification that exists; while Redis is away it waits, and goes on when that is back."""
    teller, spoke_at = Teller(told), time.monotonic()
    with queue.changes.watch(certification) as watch:
        while not queue.changes.closed:
            try:
                news = await queue.news(certification, told=teller.told)
            except UnavailableError:
                news = None
            else:
                if news is None:  # deleted
                    return
            for event in teller.events(news) if news else ():
                spoke_at = time.monotonic()
                yield event
            if news and news.record.ended:
                return
            if time.monotonic() - spoke_at >= KEEP_ALIVE_SECONDS:
                spoke_at = time.monotonic()
                yield KEEP_ALIVE
            await watch.changed(LOOK_SECONDS)
