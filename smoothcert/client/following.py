"""The events of a certification, through as many connections as it takes."""

from __future__ import annotations

from collections import deque

import httpx2

from smoothcert.client.deadline import Deadline
from smoothcert.client.errors import AnswerError, ClientError
from smoothcert.client.events import MEDIA_TYPE, Decoder, Event
from smoothcert.client.exchange import NEVER, Exchange
from smoothcert.client.steps import OpenStream, ReadChunk, Sleep, Steps

NO_CONTENT = 204
SILENCE_S = 30.0
"""The seconds of silence after which a stream counts as cut: the service sends a comment every ten seconds."""


class Following:
    """The events of one certification; after a cut they go on where they were, and no certificate comes twice."""

    def __init__(self, exchange: Exchange, path: str, *, patience: int, deadline: Deadline = NEVER) -> None:
        """Up to `patience` connections in a row may end without a single event."""
        self.ended = False
        self._exchange, self._path, self._patience, self._deadline = exchange, path, patience, deadline
        self._events: deque[Event] = deque()
        self._decoder: Decoder | None = None
        self._last = "0"
        self._fruitless = 0

    def next(self) -> Steps[Event | None]:
        """The next event; None if the service has only sent a comment, and at the end."""
        if not self._events and self._decoder is None:
            yield from self._connect()
        if not self._events and self._decoder is not None:
            yield from self._read(self._decoder)
        return self._take() if self._events else None

    def _take(self) -> Event:
        event = self._events.popleft()
        self._last, self._fruitless = event.id or self._last, 0
        self.ended = event.name == "completed"
        return event

    def _connect(self) -> Steps[None]:
        headers = {"Accept": MEDIA_TYPE, "Last-Event-ID": self._last}
        opening = OpenStream("GET", self._path, headers, silence_s=SILENCE_S)
        response = yield from self._exchange.response(opening, self._deadline)
        if response.status_code == NO_CONTENT:
            self.ended = True
            return
        if not response.headers.get("content-type", "").startswith(MEDIA_TYPE):
            raise AnswerError(f"{self._path} is not an event stream", status=response.status_code)
        self._decoder = Decoder()

    def _read(self, decoder: Decoder) -> Steps[None]:
        """Take in the next bytes; an end of the stream before the certification's end counts as a cut."""
        failure: ClientError = AnswerError(f"the events at {self._path} end before the certification does")
        try:
            chunk: bytes = yield ReadChunk()
        except httpx2.RequestError as error:
            chunk, failure = b"", self._exchange.no_answer(error)
        if chunk:
            self._events.extend(decoder.feed(chunk))
        else:
            yield from self._cut(failure)

    def _cut(self, failure: ClientError) -> Steps[None]:
        self._decoder = None
        self._fruitless += 1
        if self._fruitless > self._patience:
            raise failure
        yield Sleep(self._exchange.retries.backoff(self._fruitless))
