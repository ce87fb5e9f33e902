"""One POST to a receiver: connects only to addresses that may be connected to, and follows no redirect.

A name is resolved once for each connection, the addresses are checked, and the connection goes to one of exactly these.
A name that points elsewhere a moment later (DNS rebinding) gains nothing. Proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping

import httpcore2

from app.webhooks.receivers import Receiver, Receivers

ATTEMPT_S = 10.0
"""Seconds that one attempt may take in all."""
CONNECTIONS = 64
"""The number of connections to all receivers."""

Resolve = Callable[[str, int], Awaitable[list[str]]]


class ForbiddenAddressError(Exception):
    """A name that resolves to no address that may be connected to."""


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """Opens connections for the HTTP client, after looking where they lead."""

    def __init__(self, receivers: Receivers, find: Resolve) -> None:
        self._receivers, self._find, self._network = receivers, find, httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = [each for each in await self._find(host, port) if self._receivers.may_connect(each)]
        if not addresses:
            raise ForbiddenAddressError(f"{host} has no address that may be connected to")
        return await self._network.connect_tcp(addresses[0], port, timeout, local_address, socket_options)


class Postman:
    """Posts messages to receivers."""

    def __init__(self, receivers: Receivers, *, find: Resolve = resolve) -> None:
        network = CheckedNetwork(receivers, find)
        # No connection is kept: each message is sent to an address that was looked up for it.
        self._pool = httpcore2.AsyncConnectionPool(
            max_connections=CONNECTIONS, max_keepalive_connections=0, network_backend=network
        )

    async def post(self, receiver: Receiver, body: bytes, headers: Mapping[str, str]) -> int:
        """The status that the receiver answers with; its body is not read. Raises whatever prevents an answer."""
        url = httpcore2.URL(
            scheme=receiver.scheme.encode(),
            host=receiver.host.encode("idna"),
            port=receiver.port,
            target=receiver.target.encode(),
        )
        sent = {"Host": receiver.authority, "Content-Length": str(len(body)), **headers}
        async with (
            asyncio.timeout(ATTEMPT_S),
            self._pool.stream("POST", url, headers=list(sent.items()), content=body) as answer,
        ):
            return answer.status

    async def close(self) -> None:
        await self._pool.aclose()
