"""The whole service in one terminal, `make serve`: an embedded Valkey, the API and a worker, which end together.

    SMOOTHCERT_HOST, SMOOTHCERT_PORT   where the API listens: 127.0.0.1, 8000
    SMOOTHCERT_DATA                    the folder of all that must outlast a restart: .smoothcert
    SMOOTHCERT_REDIS_URL               a Redis or Valkey of one's own; then none is embedded
    SMOOTHCERT_DRAIN_S                 seconds for the worker to finish what it has: 20

Whatever ends this process ends the others with it (`guard.py`). The first Ctrl-C or SIGTERM lets the worker finish what
it has, the second does not.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol, TextIO

from app import samples
from app.local.embedded import EmbeddedError, EmbeddedServer
from app.local.guard import Guarded

COMMANDS = {"API": (sys.executable, "-m", "app"), "worker": (sys.executable, "-m", "workers")}
PAUSES = (1.0, 3.0, 10.0, 30.0)  # seconds before a part starts again, after its first, second, ... short life in a row
SHORT_LIFE = 60.0
MOST_FAILURES = 5  # in a row, without becoming ready
DRAIN_SECONDS = 30.0  # at least, for all parts to end
FAREWELL_SECONDS = 10.0  # what a worker may take after its own time to drain
LOOK_SECONDS = 0.25
ANSWER_SECONDS = 5.0

SAMPLE, PLACE = "ship", 4  # all members give this class on each of 256 samples at sigma 0.25


class ServeError(RuntimeError):
    """The service cannot run, or not any longer."""


@dataclass(frozen=True)
class Settings:
    """Where the service listens and keeps its data."""

    host: str = "127.0.0.1"
    port: int = 8000
    data: Path = Path(".smoothcert")
    redis_url: str | None = None
    """A server that runs already; None embeds one."""
    drain_s: float = 20.0
    locked: bool = False
    """Whether the API asks for keys."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        """As the variables say; an empty one is as good as none."""
        said = {name: value for name, value in environment.items() if value}
        port = said.get("SMOOTHCERT_PORT", "8000")
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
            raise ServeError(f"SMOOTHCERT_PORT is a number from 1 to 65535, not {port!r}")
        drain_s = said.get("SMOOTHCERT_DRAIN_S", "20")
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", drain_s):
            raise ServeError(f"SMOOTHCERT_DRAIN_S is a number of seconds, not {drain_s!r}")
        return cls(
            host=said.get("SMOOTHCERT_HOST", cls.host),
            port=int(port),
            data=Path(said.get("SMOOTHCERT_DATA", cls.data)),
            redis_url=said.get("SMOOTHCERT_REDIS_URL"),
            drain_s=float(drain_s),
            locked="SMOOTHCERT_API_KEYS" in said,
        )

    @property
    def patience(self) -> float:
        """Seconds for all parts to end: a worker is not killed before its own time to drain is over."""
        return max(DRAIN_SECONDS, self.drain_s + FAREWELL_SECONDS)

    @property
    def reachable_host(self) -> str:
        """The host under which this machine reaches an API that may listen on all addresses."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104

    @property
    def address(self) -> str:
        """The API's, for people and browsers on this machine."""
        host = self.reachable_host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


class Terminal:
    """Lines for whoever watches, and one that changes while they wait."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start, self._end = ("\r\x1b[K", "") if stream.isatty() else ("", "\n")  # a file's lines cannot change
        self._awaited = ""

    def say(self, text: str) -> None:
        """Print lines that stay."""
        start = self._start if self._awaited else ""
        self._awaited = ""
        print(start + text, file=self._stream, flush=True)

    def wait_for(self, what: str) -> None:
        """Show what is awaited, when it is something else than before."""
        if what != self._awaited:
            print(f"{self._start}waiting for {what} ...", end=self._end, file=self._stream, flush=True)
        self._awaited = what


class Running(Protocol):
    """What a part needs of its process."""

    @property
    def ended(self) -> str | None:
        """How it ended; None while it runs."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it at once."""


class Part:
    """A process that the service needs: started again, after a growing pause, whenever it ends by itself."""

    def __init__(self, name: str, start: Callable[[], Running], *, running: Running | None = None) -> None:
        self.name = name
        self.running = running
        self.ready = False
        """Whether the service was found ready with it, and it has run since."""
        self._start = start
        self._started = self._due = time.monotonic()
        self._short_lives = 0
        self._failures = 0

    def look(self, terminal: Terminal) -> None:
        """Notice its end, and start it when that is due; ServeError when it keeps failing before it is ready."""
        if self.running and (how := self.running.ended):
            self.running.kill()
            self.running = None
            self._note_end(how, terminal)
        if not self.running and time.monotonic() >= self._due:
            self._started = time.monotonic()
            self.running = self._start()

    def _note_end(self, how: str, terminal: Terminal) -> None:
        now = time.monotonic()
        self._failures = 0 if self.ready else self._failures + 1
        self.ready = False
        if self._failures == MOST_FAILURES:
            raise ServeError(f"the {self.name} ended {MOST_FAILURES} times without becoming ready, the last with {how}")
        # Two counts, since an API is ready with another worker too: one that fails at once must not be hurried either.
        self._short_lives = self._short_lives + 1 if now - self._started < SHORT_LIFE else 1
        pause = PAUSES[min(self._short_lives, len(PAUSES)) - 1]
        self._due = now + pause
        terminal.say(f"the {self.name} ended with {how}; it starts again in {pause:.0f} s")


def serve(settings: Settings, commands: Mapping[str, Sequence[str]], terminal: Terminal) -> NoReturn:
    """Run the service until a signal (KeyboardInterrupt) or an error; nothing of it runs any longer afterwards."""
    check_port(settings)
    sample = write_sample(settings.data / "samples")
    with ExitStack() as stack:
        parts = []
        url = settings.redis_url
        if url is None:
            server = stack.enter_context(EmbeddedServer(settings.data / "valkey"))
            parts.append(Part("embedded Valkey", server.start, running=server))
            url = server.url
        environment = os.environ | {
            "SMOOTHCERT_REDIS_URL": url,
            "SMOOTHCERT_HOST": settings.host,
            "SMOOTHCERT_PORT": str(settings.port),
        }
        children = [
            Part(name, partial(Guarded, command, environment=environment)) for name, command in commands.items()
        ]
        try:
            watch([*parts, *children], settings, terminal, greeting=greeting(settings, sample))
        finally:
            drain(children, terminal, seconds=settings.patience)


def watch(parts: Sequence[Part], settings: Settings, terminal: Terminal, *, greeting: str) -> NoReturn:
    """Keep all parts running, and say what is awaited or that the service is ready."""
    while True:
        for part in parts:
            part.look(terminal)
        if not all(part.ready for part in parts):
            if missing := what_is_missing(settings):
                terminal.wait_for(missing)
            elif all(part.running for part in parts):
                for part in parts:
                    part.ready = True
                terminal.say(greeting)
                greeting = "ready again"
        time.sleep(LOOK_SECONDS)


def drain(children: Sequence[Part], terminal: Terminal, *, seconds: float) -> None:
    """Let the children finish what they have, for so long or until the next signal; then end them.

    What is left to do after that is short, and further signals do not disturb it.
    """
    try:
        running = [child.running for child in children if child.running and not child.running.ended]
        if running:
            terminal.say("ending: the worker finishes what it has; Ctrl-C again ends it at once")
        for process in running:
            process.terminate()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not all(process.ended for process in running):
            time.sleep(0.05)
    except KeyboardInterrupt:
        terminal.say("ending at once")
    finally:
        take_signals(signal.SIG_IGN)
        for child in children:
            if child.running:
                child.running.kill()


def what_is_missing(settings: Settings) -> str | None:
    """What the service waits for; None when it is ready."""
    with closing(HTTPConnection(settings.reachable_host, settings.port, timeout=ANSWER_SECONDS)) as connection:
        try:
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            response.read()
        except (OSError, HTTPException):
            return "the API to answer"
    return None if response.status == 200 else f"a worker to be ready (/readyz says {response.status})"


def greeting(settings: Settings, sample: Path) -> str:
    """Where to go from here."""
    request = """-H 'Prefer: wait=30' -F 'request={"radius": 0.25, "procedure": "sequential"}'"""
    if settings.locked:
        request = f"-H 'Authorization: Bearer KEY' {request}"
    image = shlex.quote(f"images=@{sample}")
    return f"""smoothcert is ready at {settings.address}
  page  {settings.address}/
  docs  {settings.address}/docs
  try   curl -s {settings.address}/v1/certifications {request} -F {image}
Ctrl-C ends it."""


def check_port(settings: Settings) -> None:
    """ServeError where the API could not listen."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.create_server((settings.host, settings.port), family=family).close()
    except OSError as error:
        raise ServeError(
            f"cannot listen on port {settings.port} of {settings.host}: {error.strerror}; "
            "SMOOTHCERT_PORT names another, as in SMOOTHCERT_PORT=8001 make serve"
        ) from error


def write_sample(folder: Path) -> Path:
    """A shipped image as a file of its own, named by its class, to try the service on."""
    path = folder / f"{SAMPLE}.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(samples.png(PLACE))
    except OSError as error:
        raise ServeError(f"cannot write the sample image {path}: {error}") from error
    return path


def take_signals(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    """Handle Ctrl-C and SIGTERM alike, also where the shell that started us in the background ignores Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def main(commands: Mapping[str, Sequence[str]] = COMMANDS) -> int:
    """The command; gives its exit code."""
    take_signals(signal.default_int_handler)
    try:
        serve(Settings.read(os.environ), commands, Terminal(sys.stdout))
    except KeyboardInterrupt:
        return 0
    except (ServeError, EmbeddedError) as error:
        print(f"smoothcert: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
