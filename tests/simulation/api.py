"""An API process in a history: the real application on an event loop whose time is simulated."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import httpx2
from redis.asyncio import BlockingConnectionPool

from app.main import create_app
from app.redis import client
from app.service import Service
from app.settings import ApiSettings
from store import keys
from tests.simulation.lines import LoopLine
from tests.simulation.network import Network
from tests.simulation.stage import STAGE
from tests.simulation.world import Action, Process, World

OWNERS = {"alice": "sk_alice", "bob": "sk_bob"}
"""The key of each owner."""
SETTINGS = ApiSettings(
    api_keys=",".join(f"{name}:{hashlib.sha256(key.encode()).hexdigest()}" for name, key in OWNERS.items()),
    rate=0,  # the allowance of requests is measured by the server's real clock
    result_ttl=60,
    default_ensemble="looked-up",
)


IDLE: list[Any] = []
"""The applications of processes that have ended."""


def _application() -> Any:
    """An application for a new process. FastAPI takes long to prepare one, so one that has ended is used again."""
    world, STAGE.world = STAGE.world, World("")  # a new one must not change what happens in the history
    try:
        return create_app(SETTINGS)
    finally:
        STAGE.world = world


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop that the world steps; it waits for nothing."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._selector = self
        self.set_exception_handler(lambda *_: None)

    def time(self) -> float:
        return self._world.now

    def select(self, _: float | None) -> list[Any]:
        return []

    def _process_events(self, _: list[Any]) -> None:
        pass

    def step(self) -> None:
        """Run everything that is ready."""
        asyncio._set_running_loop(self)
        try:
            self._run_once()
            while self._ready:
                self._run_once()
        finally:
            asyncio._set_running_loop(None)

    @property
    def next_at(self) -> float | None:
        """The time at which something is due next."""
        return self._scheduled[0].when() if self._scheduled else None


class ApiProcess(Process):
    def __init__(self, network: Network, name: str, *, skew: float) -> None:
        super().__init__(network.world, name, skew=skew)
        self._loop = SimulatedLoop(network.world)
        self._due: float | None = None
        self._conversations: list[Conversation] = []
        self._application = self._run_now(lambda: self._make(network))

    def _make(self, network: Network) -> Any:
        application = IDLE.pop() if IDLE else _application()
        service = application.state.service = Service.of(SETTINGS)
        application.state.authenticator = service.authenticator
        made = service.queue
        pool = BlockingConnectionPool(
            connection_class=LoopLine,
            **client.options(),
            driver_info=None,
            network=network,
            process=self,
        )
        made._redis.connection_pool = pool  # its parts share this one client
        network.subscribe(f"{keys.CHANGED}:", self, lambda message: self.run(lambda: made.listener.hear(message)))
        return application

    # --- the event loop

    def run(self, action: Action) -> None:
        """Run the action in the process, once it is no longer stopped."""
        if self.stopped_until > self.world.now:
            self.world.after(self.stopped_until - self.world.now, lambda: self.run(action))
        elif self.alive:
            self._run_now(action)

    def _run_now(self, action: Callable[[], Any]) -> Any:
        before, self.world.current = self.world.current, self
        asyncio._set_running_loop(self._loop)
        try:
            result = action()
        finally:
            asyncio._set_running_loop(None)
        self._loop.step()
        self.world.current = before
        next_at = self._loop.next_at
        if next_at is not None and (self._due is None or next_at < self._due):
            self._due = next_at
            self.world.after(next_at - self.world.now, self._wake_up)
        return result

    def _wake_up(self) -> None:
        self._due = None
        self.run(lambda: None)

    def settle(self, future: asyncio.Future[Any], answer: Any) -> None:
        """Give a coroutine the result that it waits for."""

        def give() -> None:
            if not future.done():
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

        self.run(give)

    def kill(self) -> None:
        super().kill()
        for conversation in self._conversations:
            conversation.fail()
        self.stopped_until = 0.0

        def cancel() -> None:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()

        self._run_now(cancel)
        self._loop.close()
        IDLE.append(self._application)

    # --- requests

    def answer(self, request: httpx2.Request, conversation: Conversation) -> None:
        self._conversations = [each for each in self._conversations if not each.ended]
        self._conversations.append(conversation)
        conversation.delivered = True
        self.run(lambda: conversation.begin(self._loop.create_task(self._answer(request, conversation))))

    async def _answer(self, request: httpx2.Request, conversation: Conversation) -> None:
        url, unread = request.url, [request.content]

        async def receive() -> dict[str, Any]:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            await conversation.gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            conversation.receive(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": url.path,
            "raw_path": url.raw_path,
            "query_string": url.query,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": ("10.0.0.1", 1),
            "server": ("10.0.0.2", 80),
        }
        try:
            await self._application(scope, receive, send)
        finally:
            conversation.complete()


class Conversation:
    """A request to an API process and its response, as the customer receives it."""

    def __init__(self, world: World, delay: Callable[[], float]) -> None:
        """`delay` draws the seconds that a part of the response is under way; the parts arrive in their order."""
        self.gone = asyncio.Event()
        self.ended = False
        """Whether the API has sent everything."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.chunks: list[bytes] = []
        self.whole = self.broken = False
        """Whether the response is complete and whether the connection was lost, as far as the customer knows."""
        self.delivered = False
        """Whether the request has reached an API process."""
        self.changed: Callable[[], None] = lambda: None
        self._world, self._delay, self._arrives_at = world, delay, 0.0
        self._task: asyncio.Task[None] | None = None

    def begin(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def receive(self, message: dict[str, Any]) -> None:
        def arrive() -> None:
            if message["type"] == "http.response.start":
                self.status, self.headers = message["status"], list(message["headers"])
            elif message.get("body"):
                self.chunks.append(message["body"])
            self.changed()

        self._later(arrive)

    def _later(self, action: Action) -> None:
        self._arrives_at = max(self._arrives_at, self._world.now + self._delay())
        self._world.after(self._arrives_at - self._world.now, action)

    def complete(self) -> None:
        if not self.ended:
            self.ended = True
            self._later(lambda: self._end(whole=True))

    def fail(self) -> None:
        """The API has ended, or the connection was lost."""
        if not self.ended:
            self.ended = True
            self._later(lambda: self._end(whole=False))

    def _end(self, *, whole: bool) -> None:
        self.whole, self.broken = whole and not self.broken, not whole or self.broken
        self.changed()

    def leave(self) -> None:
        """The customer has closed the connection."""
        self.gone._value = True  # type: ignore[attr-defined]  # the API looks when it runs next
