"""Connections of redis-py that end in the simulated network: one for threads, one for an event loop.

Everything above them is real: the clients, their pools, pipelines and retries.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

from redis import connection as blocking
from redis.asyncio import connection as asynchronous
from redis.exceptions import ConnectionError as DisconnectedError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as TooLateError

from tests.simulation.network import Network
from tests.simulation.server import Arguments
from tests.simulation.world import Process, require_alive


class Letters:
    """Commands that a connection has sent and whose replies it has not read."""

    def __init__(self, network: Network, process: Process) -> None:
        self.network, self.process = network, process
        self.open = False
        self.sent: list[Arguments] = []
        self.replies: deque[Any] = deque()

    def close(self) -> None:
        self.open = False
        self.sent = []
        self.replies.clear()

    def take(self) -> list[Arguments]:
        sent, self.sent = self.sent, []
        return sent

    def next(self) -> Any:
        reply = self.replies.popleft()
        if isinstance(reply, ResponseError):
            raise reply
        return reply


class ThreadLine(blocking.AbstractConnection):
    """A connection of a worker."""

    def __init__(self, network: Network, process: Process, **options: Any) -> None:
        super().__init__(**options)
        self._letters = Letters(network, process)

    def repr_pieces(self) -> list[tuple[str, Any]]:
        return []

    @property
    def is_connected(self) -> bool:
        return self._letters.open

    def connect(self) -> None:
        letters = self._letters
        if letters.open:
            return
        world, timeout = letters.network.world, self._socket_connect_timeout or 1.0
        held = letters.process.cut_until - world.now
        if held > 0:
            world.sleep(min(held, timeout))
        if held > timeout:
            raise TooLateError("Timeout connecting to server")
        letters.open = True

    def disconnect(self, *_: object, **__: object) -> None:
        self._letters.close()

    def can_read(self, timeout: float = 0) -> bool:
        return False

    def pack_command(self, *arguments: Any) -> list[Arguments]:
        return [arguments]

    def pack_commands(self, commands: Iterable[Arguments]) -> list[Arguments]:
        return list(commands)

    def send_command(self, *arguments: Any, **_: object) -> None:
        self.send_packed_command([arguments])

    def send_packed_command(self, command: list[Arguments], check_health: bool = True) -> None:
        self.connect()
        self._letters.sent += command

    def read_response(self, *_: object, **__: object) -> Any:
        letters = self._letters
        if not letters.replies:
            require_alive(letters.process)
            world = letters.network.world
            letters.network.send(letters.process, letters.take(), self._socket_timeout or 20.0, world.waker())
            answer = world.pause()
            if isinstance(answer, Exception):
                self.disconnect()
                raise answer
            letters.replies.extend(answer)
        return letters.next()


class LoopLine(asynchronous.AbstractConnection):
    """A connection of an API process."""

    def __init__(self, network: Network, process: Any, **options: Any) -> None:
        super().__init__(**options)
        self._letters = Letters(network, process)

    def repr_pieces(self) -> list[tuple[str, Any]]:
        return []

    async def _connect(self) -> None: ...

    def _host_error(self) -> str:
        return "the simulated server"

    @property
    def is_connected(self) -> bool:
        return self._letters.open

    async def connect(self) -> None:
        letters = self._letters
        if letters.open:
            return
        timeout = self.socket_connect_timeout or 1.0
        held = letters.process.cut_until - letters.network.world.now
        if held > 0:
            await asyncio.sleep(min(held, timeout))
        if held > timeout:
            raise TooLateError("Timeout connecting to server")
        letters.open = True

    async def disconnect(self, *_: object, **__: object) -> None:
        self._letters.close()

    async def can_read(self) -> bool:
        return False

    def pack_command(self, *arguments: Any) -> list[Arguments]:
        return [arguments]

    def pack_commands(self, commands: Iterable[Arguments]) -> list[Arguments]:
        return list(commands)

    async def send_command(self, *arguments: Any, **_: object) -> None:
        await self.send_packed_command([arguments])

    async def send_packed_command(self, command: list[Arguments], check_health: bool = True) -> None:
        await self.connect()
        self._letters.sent += command

    async def read_response(self, *_: object, **__: object) -> Any:
        letters = self._letters
        if not letters.replies:
            process = letters.process
            if not process.alive:
                raise DisconnectedError("the process has ended")
            future = asyncio.get_running_loop().create_future()
            letters.network.send(
                process, letters.take(), self.socket_timeout or 5.0, lambda answer: process.settle(future, answer)
            )
            try:
                answer = await future
            except BaseException:
                letters.close()
                raise
            letters.replies.extend(answer)
        return letters.next()
