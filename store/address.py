"""Where Redis is, and the only place that makes clients for it: the API, the workers, RQ and health checks use these.

    redis://[user:password@]host[:port][/db]                                  one server by TCP
    rediss://...                                                              the same by TLS
    unix://[user:password@]/path[?db=0]                                       one server by a socket
    redis+sentinel://[user:password@]host[:port],host[:port]/service[/db]     the primary that Sentinels name
    rediss+sentinel://...                                                     the same by TLS, the Sentinels too

TLS and Sentinel are those of redis-py. A client connects when it is first used.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import redis
from redis import asyncio as aioredis
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.asyncio.sentinel import SentinelConnectionPool as AsyncSentinelPool
from redis.connection import parse_url
from redis.sentinel import Sentinel

from smoothcert.errors import DomainError, shown

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
PORT, SENTINEL_PORT = 6379, 26379
"""The ports of a server and of a Sentinel for which a URL names none."""


class AddressError(DomainError):
    """A URL or a file of certificates that cannot be used. The message quotes nothing that may be part of a password.

    Its `, got` keeps `explain` from quoting the whole value.
    """


@dataclass(frozen=True)
class TlsFiles:
    """Files of certificates in PEM; None for what is not used."""

    authority: Path | None = None
    """The certificates of the authorities that sign servers; the operating system's if None."""
    certificate: Path | None = None
    """Our own certificate, for servers that ask for one."""
    key: Path | None = None
    """The key of our own certificate."""

    @property
    def options(self) -> dict[str, str]:
        """The files as redis-py names them."""
        files = {"ssl_ca_certs": self.authority, "ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        return {name: str(path) for name, path in files.items() if path is not None}

    def require_readable(self) -> None:
        """Raise AddressError unless the files can be read and belong together."""
        what, files = "the authority's certificate", str(self.authority)
        try:
            context = ssl.create_default_context(cafile=self.authority)
            what, files = "the certificate and its key", f"{self.certificate} and {self.key}"
            if self.certificate or self.key:
                context.load_cert_chain(self.certificate or "", self.key)
        except OSError as error:  # an SSLError is one, too
            reason = getattr(error, "reason", None) or error.strerror or error
            raise AddressError(f"{what} for Redis cannot be used: {reason}, got {files}") from None


@dataclass(frozen=True)
class RedisAddress:
    """A server, or the primary of a service that Sentinels watch."""

    place: str
    """The address without user, password and options, for messages."""
    url: str = field(repr=False, default="")
    """The URL of a server as redis-py takes it; empty with Sentinels."""
    sentinels: tuple[tuple[str, int], ...] = ()
    service: str = ""
    """The name under which the Sentinels know the primary."""
    options: Mapping[str, Any] = field(repr=False, default_factory=dict)
    """The options of every connection to the server."""
    sentinel_options: Mapping[str, Any] = field(repr=False, default_factory=dict)
    """The options of every connection to a Sentinel."""

    @classmethod
    def of(
        cls, where: str | RedisAddress, *, tls: TlsFiles | None = None, sentinel_password: str | None = None
    ) -> RedisAddress:
        """The address that a URL names; AddressError if the URL, one of its options or a file makes no sense."""
        if isinstance(where, RedisAddress):
            return where
        parts, tls = _split(where), tls or TlsFiles()
        if tls.options:
            if not parts.scheme.startswith("rediss"):
                raise AddressError(f"certificates for Redis need a URL of TLS, rediss://, got {parts.scheme}://")
            tls.require_readable()
        if parts.scheme.endswith("+sentinel"):
            made = cls._of_sentinels(parts, tls, sentinel_password)
        elif parts.scheme == "unix":
            made = cls(place=unquote(parts.path), url=where)
        else:
            _require_database(parts.path)
            place = f"{parts.hostname or 'localhost'}:{parts.port or PORT}"
            made = cls(place=place, url=where, options=tls.options)
        made._require_options(parse_qs(parts.query))
        return made

    @classmethod
    def _of_sentinels(cls, parts: SplitResult, tls: TlsFiles, password: str | None) -> RedisAddress:
        user, _, hosts = parts.netloc.rpartition("@")
        sentinels = tuple(_host(each) for each in hosts.split(",") if each)
        service, _, database = parts.path.strip("/").partition("/")
        if not sentinels or not service:
            raise AddressError(
                "the URL of Sentinels must have their hosts and the name of the service, as in "
                f"redis+sentinel://one:26379,two:26379/service/0, got {len(sentinels)} hosts and the name {service!r}"
            )
        _require_database(database)
        safe = {**tls.options, "ssl": True} if parts.scheme.startswith("rediss") else {}
        return cls(
            place=f"{unquote(service)} of {', '.join(f'{host}:{port}' for host, port in sentinels)}",
            sentinels=sentinels,
            service=unquote(service),
            options={**_options(f"redis://{user}@/{database}?{parts.query}"), **safe},
            sentinel_options={**safe, **({"password": password} if password else {})},
        )

    @property
    def hosts(self) -> tuple[tuple[str, int], ...]:
        """The host and the port of the server, or of each Sentinel; none for a socket."""
        if not self.url or self.url.startswith("unix"):
            return self.sentinels
        parts = urlsplit(self.url)
        return ((parts.hostname or "localhost", parts.port or PORT),)

    @property
    def tls(self) -> bool | None:
        """Whether connections are encrypted; None for a socket."""
        if self.url.startswith("unix"):
            return None
        return self.url.startswith("rediss") or bool(self.options.get("ssl"))

    def _require_options(self, named: Mapping[str, object]) -> None:
        """Make a connection, which is not connected: redis-py looks at the options of a URL no earlier."""
        try:
            self.client().connection_pool.make_connection()
        except (TypeError, ValueError, redis.RedisError):
            raise _wrong_options(named) from None

    def client(self, **options: Any) -> Any:
        """A client for threads, with the options of a connection."""
        if self.url:
            return redis.Redis.from_url(self.url, **self.options, **options)
        sentinel_kwargs = {**self.sentinel_options, **_hurried(options)}
        sentinel: Any = Sentinel(self.sentinels, sentinel_kwargs=sentinel_kwargs)  # type: ignore[no-untyped-call]
        return sentinel.master_for(self.service, **{**options, **self.options})

    def async_client(self, **options: Any) -> Any:
        """A client for an event loop, with the options of `BlockingConnectionPool`."""
        if self.url:
            pool = aioredis.BlockingConnectionPool.from_url(self.url, **self.options, **options)
            return aioredis.Redis.from_pool(pool)
        sentinel_kwargs = {**self.sentinel_options, **_hurried(options)}
        sentinel: Any = AsyncSentinel(self.sentinels, sentinel_kwargs=sentinel_kwargs)  # type: ignore[no-untyped-call]
        merged = {**options, **self.options}
        return sentinel.master_for(self.service, connection_pool_class=BlockingSentinelPool, **merged)


class BlockingSentinelPool(AsyncSentinelPool, aioredis.BlockingConnectionPool):
    """Connections to the primary; commands beyond their number wait for one, as they do for a single server."""

    async def aclose(self) -> None:
        """Close the connections, also those to the Sentinels, which redis-py leaves open."""
        await super().aclose()
        await self.sentinel_manager.aclose()


def _split(url: str) -> SplitResult:
    """The parts of a URL. The message has only its scheme, because any other part may be half of a password."""
    scheme, found, _ = url.partition("://")
    if not found or scheme not in SCHEMES:
        raise AddressError(
            f"the URL of Redis must begin with {'://, '.join(SCHEMES[:-1])}:// or {SCHEMES[-1]}://, "
            f"got {f'the scheme {shown(scheme)}' if found and scheme.replace('+', '').isalnum() else 'no scheme'}"
        )
    unreadable = AddressError(
        f"the URL of Redis cannot be read, got {scheme}://...; a port is a number up to 65535, and / ? # @ in a "
        "password are written as %2F %3F %23 %40"
    )
    try:
        parts = urlsplit(url)
        if not scheme.endswith("+sentinel"):
            _ = parts.port
    except ValueError:
        raise unreadable from None
    if parts.fragment or (scheme != "unix" and "@" in parts.path + parts.query):
        raise unreadable
    return parts


def _host(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        return parts.hostname or "localhost", parts.port or SENTINEL_PORT
    except ValueError:
        raise AddressError(
            "the URL of Sentinels must have host:port for each, got a port that is not a number up to 65535"
        ) from None


def _require_database(path: str) -> None:
    if (database := path.strip("/")) and not (database.isascii() and database.isdigit()):
        raise AddressError("the path of the URL of Redis must end with the number of a database, got another text")


def _options(url: str) -> dict[str, Any]:
    try:
        return dict(parse_url(url))  # type: ignore[no-untyped-call]
    except ValueError:
        raise _wrong_options(parse_qs(urlsplit(url).query)) from None


def _wrong_options(named: Mapping[str, object]) -> AddressError:
    return AddressError(f"the options of the URL of Redis must be those of redis-py, got {shown(', '.join(named))}")


def _hurried(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a connection to a Sentinel: it answers as fast as it accepts, or the next one is asked."""
    shared = {name: options[name] for name in ("retry", "socket_connect_timeout") if name in options}
    return {**shared, "socket_timeout": options.get("socket_connect_timeout")}
