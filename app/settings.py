"""The settings of the API, which are read from the environment when the process starts."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

from pydantic import Field

from app.http.authentication import Keys
from smoothcert.attestation.keyring import Keyring
from store.settings import RedisSettings, listed, secret_file
from store.transitions import UNLIMITED, Limits

MEGABYTE = 1_000_000

Count = Annotated[int, Field(ge=1)]
PositiveSeconds = Annotated[float, Field(gt=0)]


class ApiSettings(RedisSettings):
    """Each field is the environment variable SMOOTHCERT_ and its name."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8000
    api_keys: Annotated[str, Field(repr=False)] = ""
    """`name:sha256` for each key, separated by commas, or the path of a file with one in each line."""
    open: bool = False
    """Serve on any address without keys."""
    seed_secret_file: Annotated[Path, secret_file("secret")] | None = None
    """A mounted file with the secret from which seeds are made; all API processes share it. Without one, each process
    draws a secret of its own, and no seed can be shown later not to have been chosen."""
    keyring_file: Annotated[Path, secret_file("keyring")] | None = None
    """A mounted file with the key that signs certificates (`python -m app keygen`); all API processes share it. Without
    one, certificates are not signed."""
    cors_origins: str = ""
    """Origins of pages that may call from a browser, separated by commas."""
    allowed_hosts: str = ""
    """Names by which a service without keys may be called, beside addresses and its own host, separated by commas."""
    proxies: str = ""
    """Addresses of reverse proxies whose X-Forwarded-For is believed, separated by commas."""

    default_ensemble: str = "cifar10-resnet20-gaussian-0.25"
    """The ensemble of requests that name none where several are served; without effect where it is not served."""
    connections: Count = 1000
    """Most connections open at a time."""
    bodies_mb: Count = 256
    """Most megabytes of bodies that are being read or decoded at a time, with their pixels."""
    head_seconds: PositiveSeconds = 10.0
    """Seconds in which the head of a request must arrive, counted from the connection or the last answer."""
    request_bytes: Count = 32_000_000
    """Most bytes of a request's body."""
    request_seconds: PositiveSeconds = 60.0
    """Seconds in which the body of a request must arrive."""
    request_images: Annotated[int, Field(ge=1, le=3000)] = 1000
    """Most images in a request. At most 3,000: Redis' scripts take 8,000 arguments in one command."""
    request_pixels: Count = 64_000_000
    """Most pixels of all images of a request together, decoded."""
    image_pixels: Count = 16_000_000
    """Most pixels of one image, as its file declares them."""
    samples: Count = 200_000_000
    """Most samples that a certification may need in the worst case, all of its images together."""
    sequential_samples: Count = 1_000_000
    """Most samples of a sequential test: the boundaries of much larger ones take minutes to compute."""
    queue_length: Count = 1000
    """Most certifications that may wait in a pool."""
    waiting_mb: Annotated[int, Field(ge=1, le=450)] = 256
    """Most megabytes of images and expected certificates of all certifications that have not ended."""
    active_certifications: Count | None = None
    """Most certifications of one key that have not ended; a quarter of the queue if there are keys."""
    active_samples: Count | None = None
    """Most samples that those may need in the worst case; twice those of one certification if there are keys."""
    active_mb: Count | None = None
    """Most megabytes of images and expected certificates of those; a quarter of `waiting_mb` if there are keys."""
    rate: Annotated[float, Field(ge=0)] = 100.0
    """Most requests of one key in a second, averaged over a few; 0 for any number."""
    deadline_s: Annotated[float, Field(ge=0, le=7 * 86_400)] = 86_400.0
    """The deadline of certifications that name none, in seconds; 0 for none."""
    result_ttl: Count = 86_400
    """Seconds for which a certification that was canceled before it began is kept; workers have their own setting."""

    @property
    def seed_secret(self) -> bytes | None:
        """The content of the file, without white space at its ends."""
        return None if self.seed_secret_file is None else self.seed_secret_file.read_bytes().strip()

    @property
    def keyring(self) -> Keyring | None:
        """The keys that sign; AttestationError if the file does not hold any."""
        return None if self.keyring_file is None else Keyring.read(self.keyring_file)

    @property
    def keys(self) -> Keys:
        """The keys that open the service; empty if it needs none."""
        return Keys.read(self.api_keys)

    @property
    def limits(self) -> Limits:
        """What is accepted. Where there are keys, each gets much less than all of it, unless the settings say more."""
        shared = bool(self.keys)
        return Limits(
            waiting=self.queue_length,
            active=self.active_certifications or (max(1, self.queue_length // 4) if shared else self.queue_length),
            samples=self.active_samples or (2 * self.samples if shared else UNLIMITED),
            bytes=self.waiting_mb * MEGABYTE,
            owner_bytes=(self.active_mb or max(1, self.waiting_mb // 4 if shared else self.waiting_mb)) * MEGABYTE,
        )

    @property
    def origins(self) -> list[str]:
        return listed(self.cors_origins)

    @property
    def names(self) -> list[str]:
        """The names by which the service may be called."""
        return [self.host, *listed(self.allowed_hosts)]

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
