"""Pages in a browser on this machine, against which an address of its own is no protection: it can call it, too.

A service without keys answers whoever reaches it, and a page of any site reaches it through its reader's browser: by a
request that needs no leave (a form, text), or by a name of its own that it lets point to this machine (DNS rebinding).
So the service must be called by its own name or by an address, and nothing is changed for a page of another origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.http.errors import ProblemError, problem_response
from app.http.middleware import PROBES
from smoothcert.errors import shown

HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})
OWN = frozenset({"same-origin", "none"})
"""Sec-Fetch-Site of a page of our own, and of the reader's own doing."""
ANY = "*"


class Visitors:
    """Plain ASGI middleware: turns away what a page of another site has its reader's browser send."""

    def __init__(self, app: ASGIApp, *, names: Sequence[str], origins: Sequence[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in names) | {"localhost"}
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and scope["path"] not in PROBES:
            try:
                self._require_welcome(scope["method"], Headers(scope=scope))
            except ProblemError as error:
                await problem_response(scope, error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _require_welcome(self, method: str, headers: Headers) -> None:
        hosts = headers.getlist("host")
        for host in hosts:
            if not self._is_ours(host):
                detail = f"the service is not known as {shown(host)}; SMOOTHCERT_ALLOWED_HOSTS makes it so"
                raise ProblemError("misdirected", detail)
        if method not in HARMLESS and not self._same_origin(headers, hosts):
            seen = shown(headers.get("origin", headers.get("sec-fetch-site")))
            detail = f"a page of {seen} may change nothing here; SMOOTHCERT_CORS_ORIGINS allows it"
            raise ProblemError("cross_site", detail)

    def _is_ours(self, host: str) -> bool:
        """An address cannot be made to point elsewhere, so whoever says it means it."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if not {ANY, name} & self._names:
                ip_address(name)
        except ValueError:
            return False
        return True

    def _same_origin(self, headers: Headers, hosts: Sequence[str]) -> bool:
        """What is no browser says neither; a browser says where its page comes from, and cannot be made to lie."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin in self._origins or ANY in self._origins:
            return True
        if site is not None:
            return site in OWN
        return origin is None or origin.partition("://")[2] in hosts
