"""Where webhooks may be sent: an allow-list of origins, and of networks for addresses that are not public."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

PORTS = {"https": 443, "http": 80}
"""The port of each scheme that is accepted, where an address names none."""
NAT64 = IPv6Network("64:ff9b::/96")
"""The addresses behind which a gateway reaches any IPv4 address, private ones included."""

Network = IPv4Network | IPv6Network


class ReceiverError(ValueError):
    """An address or a setting that names no receiver of webhooks."""


@dataclass(frozen=True)
class Receiver:
    """The parts of an address, split once: what is checked is what is connected to."""

    scheme: str
    host: str
    port: int
    target: str
    """Path and query."""

    @classmethod
    def of(cls, url: str) -> Receiver:
        """The parts of an address; ReceiverError if it is not one of a receiver."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ReceiverError(f"cannot be read as an address: {error}") from error
        if parts.scheme not in PORTS or not parts.hostname:
            raise ReceiverError("must begin with https:// or http:// and a host")
        if "@" in parts.netloc or "\\" in parts.netloc:
            raise ReceiverError("must not contain a user name, a password or a backslash before its path")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.scheme, parts.hostname, PORTS[parts.scheme] if port is None else port, target)

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The `Host` header: the port is named where it is not that of the scheme."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True)
class Receivers:
    """The receivers that the operator allows; none of them, if empty."""

    origins: frozenset[tuple[str, str, int]]
    networks: tuple[Network, ...]
    """Networks of addresses that are not public and may be connected to all the same."""

    @classmethod
    def read(cls, hosts: Iterable[str], networks: Iterable[str]) -> Receivers:
        """From hosts, which stand for https, or origins such as `http://host:8080`; and from networks."""
        origins = set()
        for entry in hosts:
            receiver = Receiver.of(entry if "://" in entry else f"https://{entry}")
            if receiver.target != "/":
                raise ReceiverError(f"a host of webhooks has no path; got {entry!r}")
            origins.add(receiver.origin)
        try:
            return cls(frozenset(origins), tuple(ip_network(entry) for entry in networks))
        except ValueError as error:
            raise ReceiverError(f"a network of webhooks must be such as 10.1.0.0/16: {error}") from error

    def __bool__(self) -> bool:
        return bool(self.origins)

    def require(self, url: str) -> Receiver:
        """The receiver at an address; ReceiverError unless the operator allows its scheme, host and port."""
        if not self:
            raise ReceiverError("must be left out, since this service sends no webhooks")
        receiver = Receiver.of(url)
        if receiver.origin not in self.origins:
            scheme, host, port = receiver.origin
            raise ReceiverError(f"must be at a host that this service allows; {scheme}://{host}:{port} is not one")
        return receiver

    def may_connect(self, address: str) -> bool:
        """Whether an address that a name resolved to may be connected to: a public one, or one of the networks."""
        parsed = ip_address(address.partition("%")[0])
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped:
            parsed = parsed.ipv4_mapped
        return _is_public(parsed) or any(parsed in network for network in self.networks)


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address leads to another host on the internet, and not through it to a private one."""
    if isinstance(address, IPv6Address) and (address.sixtofour or address.teredo or address in NAT64):
        return False
    return address.is_global and not address.is_multicast
