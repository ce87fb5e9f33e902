"""Hosts as network namespaces of Linux: each has an address of its own, and its link can be cut, slowed and restored.

    this process --- bridge --- link --- host
                        └------ link --- host

A process belongs to the host in which it was started. Files are shared by all of them.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNET = 0x40000000
"""The kind of namespace that Linux' setns(2) enters."""
NETWORK = "198.18.77"
"""A network that is reserved for measurements, so no real host has an address in it."""

INNER = "eth0"


class NoNamespacesError(Exception):
    """This user may not make network namespaces, or the system has none."""


@dataclass(frozen=True)
class Host:
    """A namespace with one link to the bridge."""

    name: str
    address: str
    link: str
    """The end of its link at the bridge; the end in the namespace is INNER."""

    @contextmanager
    def inside(self) -> Iterator[None]:
        """A context in which this thread belongs to the host, and so does every process that it starts."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        try:
            _enter(there)
            try:
                yield
            finally:
                _enter(home)
        finally:
            os.close(home)
            os.close(there)

    def cut(self) -> None:
        """Let nothing through: packets are lost, and no sender is told."""
        run("ip", "link", "set", self.link, "down")

    def slow(self) -> None:
        """Delay everything; on a kernel without netem, limit the link to a few kilobytes per second instead."""
        delayed = ("netem", "delay", "300ms", "200ms")
        narrow = ("tbf", "rate", "64kbit", "burst", "2kb", "latency", "2s")
        for end in (("ip", "netns", "exec", self.name, "tc"), ("tc",)):
            device = INNER if len(end) > 1 else self.link
            try:
                run(*end, "qdisc", "add", "dev", device, "root", *delayed)
            except subprocess.CalledProcessError:
                run(*end, "qdisc", "add", "dev", device, "root", *narrow)

    def restore(self) -> None:
        """Let everything through again, at full speed."""
        for end in (("ip", "netns", "exec", self.name, "tc"), ("tc",)):
            with suppress(subprocess.CalledProcessError):  # it was not slow
                run(*end, "qdisc", "del", "dev", INNER if len(end) > 1 else self.link, "root")
        run("ip", "link", "set", self.link, "up")


@contextmanager
def hosts(count: int) -> Iterator[Sequence[Host]]:
    """This number of hosts on one network, which this process can reach, too."""
    mark = f"sc{os.getpid() % 100_000}"
    with ExitStack() as stack:
        try:
            run("ip", "link", "add", mark, "type", "bridge")
            stack.callback(run, "ip", "link", "del", mark)
            run("ip", "address", "add", f"{NETWORK}.1/24", "dev", mark)
            run("ip", "link", "set", mark, "up")
            made = [_host(stack, mark, number) for number in range(count)]
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", "") or error
            raise NoNamespacesError(f"hosts of their own need root and network namespaces: {reason}") from error
        yield made


def _host(stack: ExitStack, bridge: str, number: int) -> Host:
    host = Host(f"{bridge}-{number}", f"{NETWORK}.{number + 2}", f"{bridge}-{number}")
    run("ip", "netns", "add", host.name)
    stack.callback(run, "ip", "netns", "del", host.name)
    run("ip", "link", "add", host.link, "type", "veth", "peer", "name", INNER, "netns", host.name)
    run("ip", "link", "set", host.link, "master", bridge, "up")
    run("ip", "-n", host.name, "address", "add", f"{host.address}/24", "dev", INNER)
    for device in ("lo", INNER):
        run("ip", "-n", host.name, "link", "set", device, "up")
    return host


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
