"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) of a certification."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, cast

from smoothcert.certificate import Certificate
from smoothcert.certification import CertificationSummary, Progress
from smoothcert.client import answers

MEDIA_TYPE = "text/event-stream"

EventName = Literal["status", "certificate", "progress", "completed"]
_MODELS: dict[str, type[CertificationSummary | Certificate | Progress]] = {
    "status": CertificationSummary,
    "certificate": Certificate,
    "progress": Progress,
    "completed": CertificationSummary,
}
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a CR at the very end may be half of a CRLF


@dataclass(frozen=True)
class Event:
    """A change of a certification."""

    name: EventName
    id: str
    """The position from which a later connection goes on after this event."""
    data: CertificationSummary | Certificate | Progress

    @property
    def progress(self) -> Progress | None:
        """How far the certification has come; None if the event does not contain it."""
        if isinstance(self.data, Certificate):
            return None
        return self.data if isinstance(self.data, Progress) else self.data.progress


@dataclass
class Decoder:
    """Decodes bytes to events. Events with an unknown name are ignored."""

    _rest: bytes = b""
    _name: str = ""
    _id: str = ""
    _data: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        for line in lines:
            if line:
                self._field(line.decode(errors="replace"))
            elif event := self._event():
                yield event

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._name = value
            case "id":
                self._id = value
            case "data":
                self._data.append(value)

    def _event(self) -> Event | None:
        """The event that the empty line after it completes."""
        name, data = self._name, "\n".join(self._data)
        self._name, self._data = "", []
        if name not in _MODELS or not data:
            return None
        return Event(cast(EventName, name), self._id, answers.read(_MODELS[name], data))
