"""A customer in a history: the real client's steps, performed on the simulated clock and network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeVar

import httpx2

from smoothcert.client.address import Address
from smoothcert.client.core import Core
from smoothcert.client.exchange import Exchange
from smoothcert.client.outgoing import make_outgoing
from smoothcert.client.retries import Retries
from smoothcert.client.steps import CloseStream, OpenStream, ReadChunk, Send, Sleep, Step, StepRun, Steps
from tests.simulation.api import OWNERS, ApiProcess, Conversation
from tests.simulation.network import CALM, LONGEST_S, USUAL_S
from tests.simulation.world import Process, World

URL = "http://service.invalid"
R = TypeVar("R")
HTTP = {
    owner: httpx2.Client(base_url=URL, headers=Address(URL, key).headers, timeout=30.0) for owner, key in OWNERS.items()
}
"""A client for each owner, used only to build requests as a client does."""


class Internet:
    """The connection from customers to the API processes; a customer reaches any of those that live."""

    def __init__(self, world: World) -> None:
        self.world, self.weather = world, CALM
        self.processes: list[ApiProcess] = []

    def ask(self, request: httpx2.Request) -> Conversation:
        world, chance = self.world, self.world.chance
        conversation = Conversation(world, self._delay)
        alive = [each for each in self.processes if each.alive]
        if not alive:
            world.after(USUAL_S, lambda: conversation.fail())
            return conversation
        process = chance.choice(alive)
        if chance.random() < self.weather.lost:
            world.after(self._delay(), conversation.fail)
            return conversation
        world.after(self._delay(), lambda: self._deliver(process, request, conversation))
        if chance.random() < self.weather.unanswered:
            world.after(self._delay() + chance.uniform(0, 0.1), conversation.fail)
        return conversation

    def _deliver(self, process: ApiProcess, request: httpx2.Request, conversation: Conversation) -> None:
        if process.alive:
            process.answer(request, conversation)
        else:
            conversation.fail()

    def _delay(self) -> float:
        slow = self.weather.slow and self.world.chance.random() < self.weather.slow
        return self.world.chance.expovariate(1 / USUAL_S) + (self.world.chance.uniform(0, LONGEST_S) if slow else 0.0)


class Customer(Process):
    """A process with a client of one owner; `script` says what it does."""

    def __init__(self, internet: Internet, name: str, owner: str, script: Callable[[Customer], None]) -> None:
        super().__init__(internet.world, name)
        self.owner, self._internet = owner, internet
        retries = Retries(chance=Random(internet.world.names.random()))
        self.core = Core(Exchange(Address(URL, OWNERS[owner]), retries))
        self._stream: Conversation | None = None
        self.done = False

        def act() -> None:
            script(self)
            self.done = True

        self.start(act)

    def perform(self, steps: Steps[R]) -> R:
        """The result of the client's steps."""
        running = StepRun(steps)
        while (step := running.step) is not None:
            try:
                result = self._perform(step)
            except httpx2.RequestError as error:
                running.throw(error)
            else:
                running.send(result)
        return running.result

    def _perform(self, step: Step) -> Any:
        match step:
            case Send():
                return self._send(step)
            case ReadChunk():
                return self._read()
            case CloseStream():
                return self._close()
            case Sleep():
                return self.world.sleep(step.seconds)
        raise AssertionError(step)

    def _send(self, step: Send) -> httpx2.Response:
        streaming = isinstance(step, OpenStream)
        if streaming:
            self._close()
        request = make_outgoing(HTTP[self.owner], step)
        timeout = request.extensions["timeout"]["read"]
        conversation = self._internet.ask(request)
        begun = lambda: conversation.whole or (streaming and conversation.status == 200)  # noqa: E731
        self._await(conversation, begun, timeout, request)
        response = httpx2.Response(
            conversation.status,
            headers=conversation.headers,
            content=b"" if streaming and conversation.status == 200 else b"".join(conversation.chunks),
            request=request,
        )
        if streaming:
            self._stream, self._silence, self._request = conversation, timeout, request
        return response

    def _read(self) -> bytes:
        stream = self._stream
        assert stream is not None
        self._await(stream, lambda: bool(stream.chunks or stream.whole), self._silence, self._request)
        chunk, stream.chunks = b"".join(stream.chunks), []
        return chunk

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.leave()
            self._stream = None

    def _await(
        self, conversation: Conversation, true: Callable[[], bool], seconds: float | None, request: httpx2.Request
    ) -> None:
        """Wait until it is true; httpx2.RequestError if the connection is lost before, or nothing comes in time."""
        end = self.world.now + (seconds or 60.0)
        while not true():
            if conversation.broken:
                kind = httpx2.ReadError if conversation.delivered else httpx2.ConnectError
                raise kind("the connection was lost", request=request)
            if self.world.now >= end:
                conversation.leave()
                raise httpx2.ReadTimeout("nothing came", request=request)
            wake = self.world.waker()
            conversation.changed = partial(wake, None)
            self.world.after(end - self.world.now, partial(wake, None))
            self.world.pause()
