"""How full Redis is: new work is refused before the server is full, so that work under way can end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.http.errors import ProblemError

SHARE = 0.8
"""The share of `maxmemory` up to which new work is accepted; the rest is for the certificates of what was accepted."""
RETRY_SECONDS = 30
"""The Retry-After of a full server: results expire and images are certified in minutes rather than seconds."""


@dataclass(frozen=True)
class Memory:
    """The memory of the server, in bytes."""

    used: int
    most: int
    """The server's `maxmemory`; 0 for none."""

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> Memory:
        """From the section `memory` of INFO; managed servers may leave fields out."""
        return cls(int(info.get("used_memory", 0)), int(info.get("maxmemory", 0)))

    def require_room(self, size: int) -> None:
        """Refuse new work with `size` bytes of images if the server has no room for it."""
        if self.most and self.used + size > SHARE * self.most:
            raise StorageFullError(self)


class StorageFullError(ProblemError):
    """Redis has no room for new work."""

    def __init__(self, memory: Memory) -> None:
        held = f"Redis holds {memory.used / 1e6:,.0f} MB of {memory.most / 1e6:,.0f} MB"
        super().__init__("storage_full", f"{held}; results expire and make room", retry_after=RETRY_SECONDS)
