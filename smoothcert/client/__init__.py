"""The client of the service: `Client` and `AsyncClient`, which share all of their logic; see `core.py`."""

from smoothcert.client.asynchronous import AsyncClient
from smoothcert.client.blocking import Client

__all__ = ["AsyncClient", "Client"]
