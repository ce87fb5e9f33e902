"""A client that costs almost nothing: HTTP/1.1 on one connection that stays open, for answers of known length."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What the service said."""

    status: int
    headers: Mapping[str, str]
    said: Any


class Connection:
    """One after the other; open it with `await Connection.open(port)`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        """To this machine."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, method: str, path: str, body: bytes = b"", headers: str = "") -> Answer:
        """Send a request and read its answer."""
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{headers}\r\n".encode()
            + body
        )
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines if line)
        said = json.loads(await self._reader.readexactly(int(fields["content-length"])))
        return Answer(int(first.split()[1]), fields, said)

    async def post(self, path: str, body: bytes, headers: str = "") -> tuple[int, Any]:
        """Status and JSON of the answer."""
        answer = await self.ask("POST", path, body, headers)
        return answer.status, answer.said

    def close(self) -> None:
        """The end."""
        self._writer.close()
