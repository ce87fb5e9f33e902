"""The client of the service: `Client` and `AsyncClient`, which share all of their logic; see `core.py`.

Both need the extra `client`. They are imported when they are first used, so that `smoothcert.client.errors` is there
without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcert.extras import lazy_attribute

if TYPE_CHECKING:
    from smoothcert.client.asynchronous import AsyncClient
    from smoothcert.client.blocking import Client

__all__ = ["AsyncClient", "Client"]

_MODULES = {"AsyncClient": "smoothcert.client.asynchronous", "Client": "smoothcert.client.blocking"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return lazy_attribute(name, _MODULES[name])
