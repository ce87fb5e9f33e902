"""The address of the service and the key for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx2

from smoothcert import __version__
from smoothcert.errors import DomainError, shown

LOCAL_URL = "http://127.0.0.1:8000"
"""The address at which `make serve` listens."""


@dataclass(frozen=True)
class Address:
    """The URL that the paths of the API begin with, and a key, which is never shown."""

    url: str
    key: str = field(repr=False)

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None) -> Address:
        """The arguments, or else SMOOTHCERT_URL and SMOOTHCERT_API_KEY, or else a service on this machine."""
        url = base_url or os.environ.get("SMOOTHCERT_URL") or LOCAL_URL
        key = api_key or os.environ.get("SMOOTHCERT_API_KEY") or ""
        _require_url(url)
        if not isinstance(key, str):
            raise DomainError(f"api_key must be text, got {type(key).__name__}")
        if not (key.isascii() and key.isprintable()):
            raise DomainError("api_key must be printable ASCII; this one has other characters, perhaps a line end")
        return cls(url.rstrip("/").removesuffix("/v1"), key.strip())  # paths of the API bring their own /v1

    @property
    def loopback(self) -> bool:
        """Whether the service is on this machine."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that every request has."""
        headers = {"User-Agent": f"smoothcert/{__version__}", "Accept": "application/json"}
        return headers | ({"Authorization": f"Bearer {self.key}"} if self.key else {})


def _require_url(url: str) -> None:
    if not isinstance(url, str):
        raise DomainError(f"base_url must be text, got {type(url).__name__}")
    try:
        httpx2.URL(url)  # refuses characters that urlsplit passes over
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except (httpx2.InvalidURL, ValueError):
        usable = False
    if not usable or parts.query or parts.fragment:
        raise DomainError(
            f"base_url (or SMOOTHCERT_URL) must look like {LOCAL_URL} or https://host/path, got {shown(url)}"
        )
    if parts.username or parts.password:
        raise DomainError("base_url must not contain a user name or a password; the key goes into api_key")
