"""The client of the service: `Client` and `AsyncClient`, which share all of their logic; see `core.py`.

Both need the extra `client`. They are imported when they are first used, so that `smoothcert.client.errors` is there
without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from smoothcert.extras import needed_by

if TYPE_CHECKING:
    from smoothcert.client.asynchronous import AsyncClient
    from smoothcert.client.blocking import Client

__all__ = ["AsyncClient", "Client"]

_MODULES = {"AsyncClient": "smoothcert.client.asynchronous", "Client": "smoothcert.client.blocking"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needed_by(f"smoothcert.{name}"):
        return getattr(import_module(_MODULES[name]), name)
