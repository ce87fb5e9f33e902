"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), as those of a certification."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, cast

from smoothcert.certificate import Certificate
from smoothcert.certification import CertificationSummary, Progress
from smoothcert.client import answers

MEDIA_TYPE = "text/event-stream"

Name = Literal["status", "certificate", "progress", "completed"]
_MODELS: dict[str, type[CertificationSummary | Certificate | Progress]] = {
    "status": CertificationSummary,
    "certificate": Certificate,
    "progress": Progress,
    "completed": CertificationSummary,
}
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a CR at the very end may be half of a CRLF


@dataclass(frozen=True)
class Event:
    """Something that happened to a certification."""

    name: Name
    id: str
    """Where to go on after it."""
    data: CertificationSummary | Certificate | Progress

    @property
    def progress(self) -> Progress | None:
        """How far the certification has come, where the event tells."""
        if isinstance(self.data, Certificate):
            return None
        return self.data if isinstance(self.data, Progress) else self.data.progress


@dataclass
class Decoder:
    """Bytes in, events out. Events of a name that is not known here are passed over."""

    _rest: bytes = b""
    _name: str = ""
    _id: str = ""
    _data: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that are whole with these bytes."""
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
        """At an empty line: what came before it."""
        name, data = self._name, "\n".join(self._data)
        self._name, self._data = "", []
        if name not in _MODELS or not data:
            return None
        return Event(cast(Name, name), self._id, answers.read(_MODELS[name], data))
