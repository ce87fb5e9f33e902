"""The whole service in one terminal, `make serve`: an embedded Valkey, the API and a worker, which end together.

    SMOOTHCERT_HOST, SMOOTHCERT_PORT   where the API listens; 127.0.0.1 and 8000 by default
    SMOOTHCERT_DATA                    the folder of data that outlasts a restart; .smoothcert by default
    SMOOTHCERT_REDIS_URL               a Redis or Valkey of your own; then none is embedded
    SMOOTHCERT_DRAIN_S                 seconds that the worker has to finish its certifications; 20 by default

The other processes end with this one, however it ends (`guard.py`). The first Ctrl-C or SIGTERM lets the worker finish
its certifications, the second does not.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
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

import redis
from pydantic import ValidationError

from app.keygen import make_keyring
from app.local.embedded import EmbeddedError, EmbeddedServer
from app.local.guard import Guarded
from app.local.notice import Telling
from app.local.trial import Trial, shipped, trials
from app.redis.inspector import Inspector
from smoothcert.errors import AttestationError
from smoothcert.published import EnsembleList
from store import presence
from store.inspection import UnusableServerError
from store.settings import WRONG_SETTINGS, RedisSettings, explain_settings

COMMANDS = {"API": (sys.executable, "-m", "app"), "worker": (sys.executable, "-m", "workers")}
TELLING = {"worker": Telling}
"""The processes that say themselves when they are ready."""
PAUSES = (1.0, 3.0, 10.0, 30.0)
"""Seconds before a process is started again after its first, second, third and every further short life in a row."""
SHORT_LIFE_SECONDS = 60.0
"""Seconds below which a life counts as short."""
MOST_FAILURES = 5
"""The number of ends in a row, without becoming ready, after which the service gives up."""
DRAIN_SECONDS = 30.0
"""Seconds that all processes have to end, at least."""
FAREWELL_SECONDS = 10.0
"""Seconds that a worker has to end after its own time to drain."""
LOOK_SECONDS = 0.25
"""Seconds between two checks of the processes."""
LOCAL_URL = "http://127.0.0.1:8000"
"""The address that clients use unless SMOOTHCERT_URL names another."""
ANSWER_SECONDS = 5.0
"""Seconds within which the API must answer whether it is ready."""


class ServeError(RuntimeError):
    """The service cannot start, or cannot continue."""

    exit_code = 1


class LocalSettingsError(ServeError):
    """The service cannot start with its settings, and no second try helps."""

    exit_code = WRONG_SETTINGS


@dataclass(frozen=True)
class LocalSettings:
    """Where the service listens and keeps its data."""

    host: str = "127.0.0.1"
    port: int = 8000
    data: Path = Path(".smoothcert")
    redis_url: str | None = None
    """The URL of a server that runs already; None embeds one."""
    drain_s: float = 20.0
    locked: bool = False
    """Whether the API needs keys."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> LocalSettings:
        """The settings in the environment; an empty variable counts as not set."""
        variables = {name: value for name, value in environment.items() if value}
        port = variables.get("SMOOTHCERT_PORT", "8000")
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
            raise LocalSettingsError(f"SMOOTHCERT_PORT must be a number from 1 to 65535, got {port!r}")
        drain_s = variables.get("SMOOTHCERT_DRAIN_S", "20")
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", drain_s):
            raise LocalSettingsError(f"SMOOTHCERT_DRAIN_S must be a number of seconds, got {drain_s!r}")
        return cls(
            host=variables.get("SMOOTHCERT_HOST", cls.host),
            port=int(port),
            data=Path(variables.get("SMOOTHCERT_DATA", cls.data)),
            redis_url=variables.get("SMOOTHCERT_REDIS_URL"),
            drain_s=float(drain_s),
            locked="SMOOTHCERT_API_KEYS" in variables,
        )

    @property
    def patience(self) -> float:
        """Seconds that all processes have to end; a worker is not killed before its own time to drain is over."""
        return max(DRAIN_SECONDS, self.drain_s + FAREWELL_SECONDS)

    @property
    def reachable_host(self) -> str:
        """An address at which this machine reaches the API, even if the API listens on all addresses."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104

    @property
    def address(self) -> str:
        """The URL of the API for browsers on this machine."""
        host = self.reachable_host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


class Terminal:
    """Prints lines, and one that changes while the user waits."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start, self._end = ("\r\x1b[K", "") if stream.isatty() else ("", "\n")  # lines in a file cannot change
        self._awaited = ""

    def say(self, text: str) -> None:
        """Print lines that no later line replaces."""
        start = self._start if self._awaited else ""
        self._awaited = ""
        print(start + text, file=self._stream, flush=True)

    def wait_for(self, what: str) -> None:
        """Show what is awaited, if that has changed."""
        if what != self._awaited:
            print(f"{self._start}waiting for {what} ...", end=self._end, file=self._stream, flush=True)
        self._awaited = what


class Running(Protocol):
    """The interface of a process that can be supervised."""

    @property
    def ended(self) -> str | None:
        """How the process ended; None while it runs."""

    @property
    def ready(self) -> bool:
        """Whether the process has said that it is ready; True where it does not say."""

    def terminate(self) -> None:
        """Ask the process to end."""

    def kill(self) -> None:
        """End the process at once."""


class SupervisedProcess:
    """A process that the service needs; it is started again, after a growing pause, whenever it ends by itself."""

    def __init__(self, name: str, start: Callable[[], Running], *, running: Running | None = None) -> None:
        self.name = name
        self.running = running
        self.ready = False
        """Whether the service has been ready since the process was started."""
        self._start = start
        self._started = self._due = time.monotonic()
        self._short_lives = 0
        self._failures = 0

    def look(self, terminal: Terminal) -> None:
        """Notice an end, and start the process when that is due; ServeError if it keeps failing before it is ready."""
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
        if how == f"exit code {WRONG_SETTINGS}":
            raise LocalSettingsError(f"the {self.name} cannot start with these settings; its reason stands further up")
        if self._failures == MOST_FAILURES:
            raise ServeError(f"the {self.name} ended {MOST_FAILURES} times without becoming ready, the last with {how}")
        # Lives are counted apart from failures: the API is ready with another worker as well, and then a worker that
        # fails at once is not a failure, but must not be started again without a pause either.
        self._short_lives = self._short_lives + 1 if now - self._started < SHORT_LIFE_SECONDS else 1
        pause = PAUSES[min(self._short_lives, len(PAUSES)) - 1]
        self._due = now + pause
        terminal.say(f"the {self.name} ended with {how}; it starts again in {pause:.0f} s")


def serve(settings: LocalSettings, commands: Mapping[str, Sequence[str]], terminal: Terminal) -> NoReturn:
    """Run the service until a signal (KeyboardInterrupt) or an error; afterwards none of its processes runs."""
    check_settings(settings)
    check_port(settings)
    write_sample(settings.data / "samples", shipped())
    with ExitStack() as stack:
        processes = []
        url = settings.redis_url
        if url is None:
            server = stack.enter_context(EmbeddedServer(settings.data / "valkey"))
            processes.append(SupervisedProcess("embedded Valkey", server.start, running=server))
            url = server.url
            forget_workers(url)
        environment = os.environ | {
            "SMOOTHCERT_REDIS_URL": url,
            "SMOOTHCERT_HOST": settings.host,
            "SMOOTHCERT_PORT": str(settings.port),
        }
        environment.setdefault("SMOOTHCERT_SEED_SECRET_FILE", str(write_seed_secret(settings.data)))
        environment.setdefault("SMOOTHCERT_KEYRING_FILE", str(write_keyring(settings.data)))
        children = [
            SupervisedProcess(name, partial(TELLING.get(name, Guarded), command, environment=environment))
            for name, command in commands.items()
        ]
        try:
            watch([*processes, *children], settings, terminal, greeting=partial(greeting, settings))
        finally:
            drain(children, terminal, settings)


def watch(
    processes: Sequence[SupervisedProcess], settings: LocalSettings, terminal: Terminal, *, greeting: Callable[[], str]
) -> NoReturn:
    """Keep all processes running, and print what is awaited or that the service is ready."""
    while True:
        for process in processes:
            process.look(terminal)
        if not all(process.ready for process in processes):
            if missing := what_is_missing(settings, processes):
                terminal.wait_for(missing)
            else:
                for process in processes:
                    process.ready = True
                terminal.say(greeting())
                greeting = partial(str, "ready again")
        time.sleep(LOOK_SECONDS)


def drain(children: Sequence[SupervisedProcess], terminal: Terminal, settings: LocalSettings) -> None:
    """Let the children finish their work, until their time is over or the next signal comes; then kill them.

    Further signals are ignored, since the rest takes no time.
    """
    try:
        running = [child.running for child in children if child.running and not child.running.ended]
        if any(isinstance(process, Telling) and process.ready for process in running):
            terminal.say(
                f"ending: the worker finishes its certifications for up to {settings.drain_s:g} s "
                "(SMOOTHCERT_DRAIN_S); the rest goes on at the next start. Ctrl-C again ends it at once"
            )
        for process in running:
            process.terminate()
        deadline = time.monotonic() + settings.patience
        while time.monotonic() < deadline and not all(process.ended for process in running):
            time.sleep(0.05)
    except KeyboardInterrupt:
        terminal.say("ending at once")
    finally:
        take_signals(signal.SIG_IGN)
        for child in children:
            if child.running:
                child.running.kill()


def what_is_missing(settings: LocalSettings, processes: Sequence[SupervisedProcess]) -> str | None:
    """What the service still waits for; None if it is ready.

    The API counts a worker that was killed until its heartbeat is old, so our own worker has to say that it is ready.
    """
    for process in processes:
        if not process.running:
            return f"the {process.name} to start again"
    status, _ = ask(settings, "/readyz")
    if status is None:
        return "the API to answer"
    if status != 200:
        return f"a worker to be ready (/readyz says {status})"
    unready = [process.name for process in processes if not (process.running and process.running.ready)]
    return f"the {unready[0]} to load its ensembles" if unready else None


def forget_workers(url: str) -> None:
    """Forget what the workers of an earlier start offered: a private server has no other workers than ours."""
    with redis.Redis.from_url(url) as client:
        for command in presence.forget_all():
            client.execute_command(*command)


def ask(settings: LocalSettings, path: str) -> tuple[int | None, bytes]:
    """The status and the content of an answer of the API; None without an answer."""
    with closing(HTTPConnection(settings.reachable_host, settings.port, timeout=ANSWER_SECONDS)) as connection:
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, HTTPException):
            return None, b""


def greeting(settings: LocalSettings) -> str:
    """The addresses of the service, and commands to try it with ensembles that it holds."""
    lines = [
        f"smoothcert is ready at {settings.address}",
        f"  page  {settings.address}/",
        f"  docs  {settings.address}/docs",
    ]
    if settings.address != LOCAL_URL:
        lines.append(f"  url   export SMOOTHCERT_URL={settings.address}")
    for each in first_questions(settings):
        image = shlex.quote(f"images=@{write_sample(settings.data / 'samples', each)}")
        key = "-H 'Authorization: Bearer KEY' " if settings.locked else ""
        request = f"{key}-H 'Prefer: wait=30' -F {shlex.quote(f'request={each.request}')}"
        lines.append(f"  try   curl -s {settings.address}/v1/certifications {request} -F {image}")
    return "\n".join([*lines, "Ctrl-C ends it."])


def first_questions(settings: LocalSettings) -> list[Trial]:
    """Questions that the service can answer; that for the shipped ensemble where the API does not tell us more."""
    status, content = ask(settings, "/v1/ensembles")
    try:
        return trials(EnsembleList.model_validate_json(content)) if status == 200 else [shipped()]
    except ValidationError:
        return [shipped()]


def check_settings(settings: LocalSettings) -> None:
    """Raise LocalSettingsError if a setting is wrong, or if the Redis that the settings name refuses us.

    The API and the worker would say so, too, but both of them, and after they were started.
    """
    try:
        found = RedisSettings()
        if settings.redis_url is not None:
            asyncio.run(Inspector().require_usable(found.redis, strict=found.strict))
    except ValidationError as error:
        raise LocalSettingsError(explain_settings(error)) from error
    except UnusableServerError as error:
        raise LocalSettingsError(str(error)) from error


def check_port(settings: LocalSettings) -> None:
    """Raise ServeError if the API could not listen on its port."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.create_server((settings.host, settings.port), family=family).close()
    except OSError as error:
        raise ServeError(
            f"cannot listen on port {settings.port} of {settings.host}: {error.strerror}; "
            "choose another, for example SMOOTHCERT_PORT=8001 make serve"
        ) from error


def write_sample(folder: Path, sample: Trial) -> Path:
    """Write the image of a question to a file, unless it is there; returns its path."""
    path = folder / sample.file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(sample.image)
    except OSError as error:
        raise ServeError(f"cannot write the sample image {path}: {error}") from error
    return path


def write_seed_secret(folder: Path) -> Path:
    """Write the secret from which seeds are made, once, to a file that only its owner can read; returns its path."""
    path = folder / "seed_secret"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            fresh = path.with_name(f"seed_secret.{os.getpid()}")
            fresh.touch(mode=0o600)
            fresh.write_text(secrets.token_hex(32))
            fresh.rename(path)  # at once, so that no crash leaves an empty file
    except OSError as error:
        raise ServeError(f"cannot write the secret {path}: {error}") from error
    return path


def write_keyring(folder: Path) -> Path:
    """Make the key that signs certificates, once; returns the path of its file."""
    path = folder / "keyring"
    try:
        if not path.exists():
            make_keyring(path, f"smoothcert on {socket.gethostname()}")
    except AttestationError as error:
        raise ServeError(str(error)) from error
    return path


def take_signals(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    """Handle Ctrl-C and SIGTERM alike, even if a shell started this process in the background and ignores Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def main(commands: Mapping[str, Sequence[str]] = COMMANDS) -> int:
    """Run the command; returns its exit code."""
    take_signals(signal.default_int_handler)
    try:
        serve(LocalSettings.read(os.environ), commands, Terminal(sys.stdout))
    except KeyboardInterrupt:
        return 0
    except (ServeError, EmbeddedError) as error:
        print(f"smoothcert: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, ServeError) else 1
