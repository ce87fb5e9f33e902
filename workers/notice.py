"""What a supervisor is told by the protocol of systemd: that the worker is ready."""

from __future__ import annotations

import logging
import os
import socket

logger = logging.getLogger(__name__)


def tell_ready() -> None:
    """Send READY=1 to the socket NOTIFY_SOCKET, as sd_notify(3) does; nothing where the variable is not set."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket of Linux
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.sendto(b"READY=1", address)
    except OSError as error:
        logger.warning("the supervisor at NOTIFY_SOCKET cannot be told that the worker is ready: %s", error)
