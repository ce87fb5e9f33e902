"""An HTTP/1.1 client that costs almost nothing: one connection that stays open, and answers of known length."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class HttpAnswer:
    """An answer of the service."""

    status: int
    headers: Mapping[str, str]
    """The values by the lower-case names."""
    payload: Any
    """The JSON value of the body."""


class HttpConnection:
    """A connection for one request after the other; open it with `await HttpConnection.open(port)`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> HttpConnection:
        """Connect to a port of this machine."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, method: str, path: str, body: bytes = b"", headers: str = "") -> HttpAnswer:
        """Send a request and read its answer. Each of the further headers ends with CR LF."""
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{headers}\r\n".encode()
            + body
        )
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines if line)
        payload = json.loads(await self._reader.readexactly(int(fields["content-length"])))
        return HttpAnswer(int(first.split()[1]), fields, payload)

    async def post(self, path: str, body: bytes, headers: str = "") -> tuple[int, Any]:
        """The status and the JSON value of the answer."""
        answer = await self.ask("POST", path, body, headers)
        return answer.status, answer.payload

    def close(self) -> None:
        self._writer.close()
