"""Where a model is served, what it takes and gives, and on which conditions it is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, model_validator

from smoothcert.engine.errors import RemoteError
from smoothcert.errors import explain
from smoothcert.frozen import Frozen

DATATYPES = {"FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}
"""numpy's name of each datatype of the protocol that pixels and logits may have."""
ROWS = 64
"""The most images of a request where the model does not fix their number."""
MOST_ROWS = 65_536
_PATH = re.compile(r"(?P<base>(/[\w.~-]+)*)/v2/models/(?P<model>[\w.~-]+)(/versions/(?P<version>[\w.~-]+))?", re.ASCII)
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\]", re.ASCII)


@dataclass(frozen=True)
class ModelAddress:
    """The parts of the URL of a model, such as http://host:8000/v2/models/resnet/versions/1."""

    scheme: str
    host: str
    port: int
    path: str
    base: str
    """The path before /v2/models: that of the server."""
    model: str
    version: str | None

    @classmethod
    def of(cls, url: str) -> Self:
        """Parse the URL of a model; RemoteError for any other text."""
        try:
            parts = urlsplit(url)
            port, host = parts.port, (parts.netloc.rpartition(":")[0] if parts.port else parts.netloc).lower()
        except ValueError as error:
            raise RemoteError(f"{url!r} is not a URL: {error}") from error
        path = _PATH.fullmatch(parts.path.rstrip("/"))
        plain = parts.scheme in ("http", "https") and not (parts.query or parts.fragment) and _HOST.fullmatch(host)
        if path is None or not plain:
            raise RemoteError(
                f"{url!r} is not the URL of a model: it must be like http://HOST:PORT/v2/models/NAME or "
                f"https://HOST/v2/models/NAME/versions/VERSION, without a password or a query"
            )
        port = port or {"http": 80, "https": 443}[parts.scheme]
        return cls(parts.scheme, host, port, path[0], path["base"], path["model"], path["version"])

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"


class Endpoint(Frozen):
    """A served model. Its JSON is the file of a remote member, whose digest covers this and not the model's weights."""

    format: Literal["smoothcert/endpoint/1"] = "smoothcert/endpoint/1"
    url: str
    input: Annotated[str, Field(min_length=1, max_length=200)]
    """The name of the tensor that takes the images [N, C, H, W]."""
    output: Annotated[str, Field(min_length=1, max_length=200)]
    """The name of the tensor that has the logits [N, classes]."""
    datatype: Literal["FP16", "FP32", "FP64"] = "FP32"
    """The datatype of the images."""
    rows: Annotated[int, Field(strict=True, ge=1, le=MOST_ROWS)] = ROWS
    """The number of images of a request: the most, or the exact number if `fixed`."""
    fixed: Annotated[bool, Field(strict=True)] = False
    platform: str = ""
    server: str = ""
    """What the endpoint said of itself when it was added. This is not checked."""
    answer: tuple[Annotated[float, Field(allow_inf_nan=False)], ...] | None = None
    """The logits that it gave for the test image when it was added (see `Remote`)."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.address
        return self

    @property
    def address(self) -> ModelAddress:
        return ModelAddress.of(self.url)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """The endpoint in the bytes of a file; RemoteError says what is wrong with them."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise RemoteError(f"not the description of an endpoint: {explain(error)}") from error


@dataclass(frozen=True)
class RemotePolicy:
    """The conditions of the operator: which hosts may be asked, and how patiently."""

    hosts: frozenset[str] = frozenset()
    """Each is a host, or a host and a port; no endpoint elsewhere is asked."""
    timeout_s: float = 30.0
    """Seconds that one try of a request may take, from connecting to the last byte."""
    patience_s: float = 60.0
    """Seconds without any good answer after which what is asked fails."""
    connections: int = 4
    """The most requests that an endpoint has to deal with at a time."""

    def require(self, address: ModelAddress) -> None:
        """Raise RemoteError unless the operator allows this host."""
        allowed = {host.lower() for host in self.hosts}
        if not allowed & {address.host, address.place}:
            raise RemoteError(
                f"{address.place} is not among the hosts at which members may run: {sorted(allowed)}; the operator "
                f"allows one by SMOOTHCERT_REMOTE_HOSTS or --allow-host"
            )
