"""The command `python -m app`.

python -m app                                    serves the API
python -m app key NAME                           makes an API key
python -m app keygen FILE                        makes the key that signs certificates; --help says what else it does
python -m app webhook NAME                       prints the secret that signs the webhooks of a key
python -m app reference                          prints the HTTP reference
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from socket import socket

from smoothcert.imports import ended_by_ctrl_c

with ended_by_ctrl_c():
    import uvicorn
    from fastapi import FastAPI
    from pydantic import ValidationError

    from app import logs
    from app.archive.storage import StorageError
    from app.docs import openapi
    from app.docs.reference import markdown
    from app.http import authentication
    from app.http.authentication import Keys, KeysError
    from app.http.protocol import BoundedProtocol
    from app.keygen import keygen
    from app.main import create_app
    from app.settings import ApiSettings
    from app.webhooks.signature import owner_secret
    from smoothcert.errors import AttestationError
    from store.inspection import UnusableServerError
    from store.settings import WRONG_SETTINGS, explain_settings
    from store.tracing import traces_of

GRACE_SECONDS = 10
"""Seconds that requests under way have when the process ends."""
ENDED_BY_CTRL_C = 130
"""The exit code after Ctrl-C, by the convention of shells."""

logger = logging.getLogger(__name__)


class ApiServer(uvicorn.Server):
    """A uvicorn server whose waiting requests are answered when it shuts down."""

    def __init__(self, app: FastAPI, settings: ApiSettings) -> None:
        self._changes = app.state.service.queue.listener.changes
        super().__init__(
            uvicorn.Config(
                app,
                host=settings.host,
                port=settings.port,
                loop="uvloop",
                http=_protocol(settings),
                ws="none",
                lifespan="on",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=bool(settings.proxies),  # otherwise any client could choose its address
                forwarded_allow_ips=settings.proxies,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Release the requests that wait for a certification, then wait for all others."""
        self._changes.close()
        await super().shutdown(sockets)


def _protocol(settings: ApiSettings) -> type[BoundedProtocol]:
    class ConfiguredProtocol(BoundedProtocol):
        most_connections = settings.connections
        head_seconds = settings.head_seconds

    return ConfiguredProtocol


def serve() -> int:
    """Run the API until SIGTERM or Ctrl-C."""
    try:
        settings = ApiSettings()
        _require_safe(settings)
        app = create_app(settings, traces_of(settings, "smoothcert-api"))
    except ValidationError as error:
        return _refuse(explain_settings(error), code=WRONG_SETTINGS)
    except (ValueError, AttestationError, StorageError) as error:
        return _refuse(str(error), code=WRONG_SETTINGS)
    logs.configure()
    if not settings.keys:
        logger.warning("no API keys are set up: everyone who reaches %s can use the service", settings.host)
    try:
        inspector = app.state.service.queue.inspector
        asyncio.run(inspector.require_usable(settings.redis, strict=settings.strict))
    except UnusableServerError as error:
        return _refuse(str(error), code=WRONG_SETTINGS)
    server = ApiServer(app, settings)
    try:
        server.run()
    except KeyboardInterrupt:  # uvicorn raises it again after an orderly shutdown
        return ENDED_BY_CTRL_C
    return 0 if server.started else 1


def _require_safe(settings: ApiSettings) -> None:
    if not (settings.keys or settings.loopback or settings.open):
        raise ValueError(
            f"will not listen on {settings.host} without API keys: set SMOOTHCERT_API_KEYS (`python -m app key NAME` "
            "makes one), or SMOOTHCERT_OPEN=true to serve without keys"
        )


def make_key(name: str) -> int:
    """Print a new key, which is stored nowhere, and the entry to set up for it."""
    key = authentication.new_key()
    entry = f"{name}:{authentication.digest(key)}"
    try:
        Keys.read(entry)
    except KeysError:
        return _refuse(f"a name must have 1 to 64 letters, digits, dots, dashes or underscores, got {name!r}")
    print(f"the key, shown this once:  {key}")
    print(f"for SMOOTHCERT_API_KEYS:   {entry}")
    return 0


def show_webhook_secret(name: str) -> int:
    """Print the secret that signs the webhooks of a key."""
    try:
        secret = ApiSettings().webhook_secret
    except ValidationError as error:
        return _refuse(explain_settings(error))
    if secret is None:
        return _refuse("set SMOOTHCERT_WEBHOOK_SECRET_FILE to the secret of the service first")
    print(owner_secret(secret, name))
    return 0


def _refuse(reason: str, *, code: int = 1) -> int:
    print(f"smoothcert: {reason}", file=sys.stderr)
    return code


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    match arguments:
        case []:
            return serve()
        case ["key", name]:
            return make_key(name)
        case ["webhook", name]:
            return show_webhook_secret(name)
        case ["keygen", *options]:
            try:
                print(keygen(options))
            except AttestationError as error:
                return _refuse(str(error))
            return 0
        case ["reference"]:
            print(markdown(openapi.document(create_app(ApiSettings()))))
            return 0
    change = "--name NAME | --rotate | --revoke | --revoke-retired KEYID"
    usage = f"key NAME | keygen [{change}] [--public PUBLIC] FILE | webhook NAME | reference"
    return _refuse(f"usage: python -m app [{usage}]") + 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
