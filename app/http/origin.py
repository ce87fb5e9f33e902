"""Protection of a service without keys against pages of other sites.

Such a service answers every request, and a page of any site can send one through the browser of its visitor: a request
that needs no preflight (a form, plain text), or one to a host name that the site makes point to this machine (DNS
rebinding). So the service must be called by its own name or by an address, and pages of other origins change nothing.
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
"""Methods that change nothing."""
OWN = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site for a page of our own, and for a request that the user started, such as a bookmark."""
ANY = "*"
"""In the settings: every name, or every origin."""


class OriginCheck:
    """Plain ASGI middleware that refuses requests of pages of other sites."""

    def __init__(self, app: ASGIApp, *, names: Sequence[str], origins: Sequence[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in names) | {"localhost"}
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in PROBES:
            try:
                self._require_own(scope["method"], Headers(scope=scope))
            except ProblemError as error:
                await problem_response(scope, error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _require_own(self, method: str, headers: Headers) -> None:
        hosts = headers.getlist("host")
        for host in hosts:
            if not self._is_ours(host):
                detail = f"{shown(host)} is not a name of this service; SMOOTHCERT_ALLOWED_HOSTS adds one"
                raise ProblemError("misdirected", detail)
        if method not in HARMLESS and not self._same_origin(headers, hosts):
            seen = shown(headers.get("origin", headers.get("sec-fetch-site")))
            detail = f"a page of {seen} must not change anything here; SMOOTHCERT_CORS_ORIGINS allows its origin"
            raise ProblemError("cross_site", detail)

    def _is_ours(self, host: str) -> bool:
        """Whether the Host header is a name of this service or an address, which no site can redirect."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if not {ANY, name} & self._names:
                ip_address(name)
        except ValueError:
            return False
        return True

    def _same_origin(self, headers: Headers, hosts: Sequence[str]) -> bool:
        """Whether a request comes from a page of ours or of an allowed origin, or not from a browser.

        Browsers set these headers, and pages cannot change them; other programs send neither.
        """
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin in self._origins or ANY in self._origins:
            return True
        if site is not None:
            return site in OWN
        return origin is None or origin.partition("://")[2] in hosts
