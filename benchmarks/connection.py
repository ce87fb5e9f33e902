"""A client that costs almost nothing: HTTP/1.1 on one connection that stays open, for answers of known length."""

from __future__ import annotations

import asyncio
import json
from typing import Any


class Connection:
    """One after the other; open it with `await Connection.open(port)`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        """To this machine."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, path: str, body: bytes, headers: str = "") -> tuple[int, Any]:
        """Status and JSON of the answer."""
        self._writer.write(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{headers}\r\n".encode()
            + body
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split()[1])
        fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        return status, json.loads(await self._reader.readexactly(int(fields["content-length"])))

    def close(self) -> None:
        """The end."""
        self._writer.close()
