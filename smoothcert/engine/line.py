"""The runs that want samples, in a line in which no party is served before one that has had less."""

from __future__ import annotations

from collections import deque

from smoothcert.engine.run import Run
from smoothcert.engine.usage import Usage


class Line:
    """The runs of several parties, such as owners and, within each, their certifications.

    With a usage, the party that has had least of the device is first. Otherwise, and among equals, parties take turns:
    one is served once before any is served twice, however many runs each has. The parties within a party take turns,
    and so do its runs: the one that was served longest ago is first.
    """

    def __init__(self, usage: Usage | None = None) -> None:
        self._usage = usage
        self._runs: deque[Run] = deque()
        self._parties: dict[str, Line] = {}  # the one served longest ago first

    def __bool__(self) -> bool:
        return bool(self._runs or self._parties)

    def append(self, run: Run, level: int = 0) -> None:
        if level == len(run.party):
            self._runs.append(run)
            return
        party = run.party[level]
        if party not in self._parties:
            self._parties[party] = Line()
        self._parties[party].append(run, level + 1)

    def popleft(self) -> Run:
        if self._runs:
            return self._runs.popleft()
        name = min(self._parties, key=self._usage.of) if self._usage else next(iter(self._parties))
        party = self._parties.pop(name)
        run = party.popleft()
        if party:
            self._parties[name] = party
        return run

    def clear(self) -> None:
        self._runs.clear()
        self._parties.clear()
