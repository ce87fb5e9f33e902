"""The settings that the API and the workers share: where Redis is, and where traces go."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

SCHEMES = ("redis", "rediss", "unix")
"""The schemes of a URL that redis-py accepts."""


def _require_scheme(url: str) -> str:
    """The error names only the scheme: what follows may contain a password."""
    if (scheme := urlsplit(url).scheme) not in SCHEMES:
        raise ValueError(
            f"the URL of Redis must begin with redis://, rediss:// or unix://; got the scheme {scheme[:20]!r}"
        )
    return url


def _require_secret(what: str, path: Path) -> Path:
    try:
        empty = not path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the {what} cannot be read: {error}") from error
    if empty:
        raise ValueError(f"the file {path} is empty; it must hold the {what}")
    return path


def secret_file(what: str) -> AfterValidator:
    """Demands a mounted file that is not empty; `what` names the secret in it."""
    return AfterValidator(partial(_require_secret, what))


class RedisSettings(BaseSettings):
    """Each field is read from the environment variable SMOOTHCERT_ and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="SMOOTHCERT_", extra="ignore", frozen=True)

    redis_url: Annotated[str, AfterValidator(_require_scheme), Field(repr=False)] = "redis://127.0.0.1:6379/0"
    redis_password_file: Annotated[Path, secret_file("password")] | None = None
    """A mounted secret; it takes the place of a password in the URL."""
    otlp_endpoint: Annotated[str, Field(pattern=r"^(https?://[!-~]+)?$")] = ""
    """The address of an OpenTelemetry collector, for traces over HTTP; none if empty."""

    @property
    def redis_address(self) -> str:
        """The URL with its password, as `redis.from_url` takes it."""
        if self.redis_password_file is None:
            return self.redis_url
        password = quote(self.redis_password_file.read_text().strip(), safe="")
        parts = urlsplit(self.redis_url)
        user, _, host = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:{password}@{host}"))


def listed(text: str) -> list[str]:
    """The parts of a text that are separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
