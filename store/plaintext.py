"""Whether a server answers without TLS at an address that names TLS.

Such a server takes a handshake for half a command and waits for the rest: a client sees nothing but a timeout, which
might as well be that of a server that is away. A PING in plain text tells them apart. It carries no password.
"""

from __future__ import annotations

import socket

from store.address import RedisAddress

ANSWER_S = 1.0
"""Seconds that a server has to accept the connection, and again to answer."""
PING = b"PING\r\n"
ANSWERS = (b"+", b"-")
"""The first byte of an answer to PING: +PONG, or an error such as -NOAUTH. TLS answers with an alert, 0x15."""


def answers_plainly(address: RedisAddress) -> bool:
    """Whether an address that names TLS leads to a server, or to a Sentinel, that does not speak it."""
    return bool(address.tls) and any(_answers(host, port) for host, port in address.hosts)


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), ANSWER_S) as connection:
            connection.sendall(PING)
            return connection.recv(1) in ANSWERS
    except OSError:
        return False
