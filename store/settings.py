"""Where Redis is: the settings that the API and the workers share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

SCHEMES = ("redis", "rediss", "unix")


def _of_redis(url: str) -> str:
    """The message names no more than the scheme: what follows may have a password in it."""
    if (scheme := urlsplit(url).scheme) not in SCHEMES:
        raise ValueError(f"a URL of Redis begins with redis://, rediss:// or unix://, got the scheme {scheme[:20]!r}")
    return url


def _with_a_password(path: Path) -> Path:
    try:
        empty = not path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"no password can be read: {error}") from error
    if empty:
        raise ValueError("the file has no password in it")
    return path


class RedisSettings(BaseSettings):
    """Each field is the environment variable SMOOTHCERT_ and its name."""

    model_config = SettingsConfigDict(env_prefix="SMOOTHCERT_", extra="ignore", frozen=True)

    redis_url: Annotated[str, AfterValidator(_of_redis), Field(repr=False)] = "redis://127.0.0.1:6379/0"
    redis_password_file: Annotated[Path, AfterValidator(_with_a_password)] | None = None
    """A secret that is mounted; what it says takes the place of a password in the URL."""

    @property
    def redis_address(self) -> str:
        """The URL with its password, as `redis.from_url` takes it."""
        if self.redis_password_file is None:
            return self.redis_url
        password = quote(self.redis_password_file.read_text().strip(), safe="")
        parts = urlsplit(self.redis_url)
        user, _, host = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:{password}@{host}"))


def listed(said: str) -> list[str]:
    """What is separated by commas, one by one."""
    return [each.strip() for each in said.split(",") if each.strip()]
