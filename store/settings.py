"""The settings that the API and the workers share: where Redis is, what is demanded of it, and where traces go."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from smoothcert.errors import DomainError, explain
from store import variables
from store.address import RedisAddress, TlsFiles


def _require_url(url: str) -> str:
    RedisAddress.of(url)
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


WRONG_SETTINGS = 78
"""The exit code of a process that cannot work with its settings: EX_CONFIG of sysexits.h. No restart mends that."""


class RedisSettings(BaseSettings):
    """Each field is read from the environment variable SMOOTHCERT_ and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="SMOOTHCERT_", extra="ignore", frozen=True, hide_input_in_errors=True)

    redis_url: Annotated[str, AfterValidator(_require_url), Field(repr=False)] = "redis://127.0.0.1:6379/0"
    """`store/address.py` has its forms."""
    redis_password_file: Annotated[Path, secret_file("password")] | None = None
    """A mounted secret; it takes the place of a password in the URL."""
    redis_sentinel_password_file: Annotated[Path, secret_file("password of the Sentinels")] | None = None
    """A mounted secret; Sentinels are asked without a password if there is none."""
    redis_ca_file: Path | None = None
    """The certificates of the authorities that sign the server's; the operating system's if there are none."""
    redis_certificate_file: Path | None = None
    """Our own certificate, for a server that asks for one."""
    redis_key_file: Path | None = None
    """The key of that certificate."""
    strict: bool = False
    """Refuse to start with a Redis that may lose what it has acknowledged, instead of warning."""
    otlp_endpoint: Annotated[str, Field(pattern=r"^(https?://[!-~]+)?$")] = ""
    """The address of an OpenTelemetry collector, for traces over HTTP; none if empty."""

    @model_validator(mode="after")
    def _require_known(self) -> Self:
        if wrong := variables.unknown(os.environ):
            raise DomainError(wrong)
        return self

    @model_validator(mode="after")
    def _require_address(self) -> Self:
        _ = self.redis
        return self

    @property
    def redis_address(self) -> str:
        """The URL with its password."""
        if self.redis_password_file is None:
            return self.redis_url
        password = quote(self.redis_password_file.read_text().strip(), safe="")
        parts = urlsplit(self.redis_url)
        user, _, host = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:{password}@{host}"))

    @property
    def redis(self) -> RedisAddress:
        tls = TlsFiles(self.redis_ca_file, self.redis_certificate_file, self.redis_key_file)
        file = self.redis_sentinel_password_file
        password = None if file is None else file.read_text().strip()
        return RedisAddress.of(self.redis_address, tls=tls, sentinel_password=password)


def explain_settings(error: ValidationError) -> str:
    """What is wrong with the settings, by the names of their variables."""
    prefix = RedisSettings.model_config["env_prefix"]
    return explain(error, whole="", named=lambda field: f"{prefix}{field.upper()}")


def listed(text: str) -> list[str]:
    """The parts of a text that are separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
