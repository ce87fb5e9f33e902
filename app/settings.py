"""The settings of the API, which are read from the environment when the process starts."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from app.http.authentication import Keys
from app.webhooks.receivers import Receivers
from smoothcert.attestation.keyring import Keyring
from store.settings import RedisSettings, listed, secret_file
from store.transitions.admission import UNLIMITED, Limits

MEGABYTE = 1_000_000

Count = Annotated[int, Field(ge=1)]
PositiveSeconds = Annotated[float, Field(gt=0)]

MOST_PAUSES_S = 5 * 86_400
"""The longest that a webhook may be tried, in seconds: it is forgotten after a week (`store.deliveries`)."""


def pauses(text: str) -> list[float]:
    """Numbers of seconds that are separated by commas."""
    return [float(each) for each in listed(text)]


def _require_pauses(text: str) -> str:
    try:
        found = pauses(text)
    except ValueError as error:
        raise ValueError(f"must be numbers of seconds, separated by commas: {error}") from error
    if not all(each > 0 for each in found) or sum(found) > MOST_PAUSES_S:
        raise ValueError(f"must be positive numbers of seconds, together at most {MOST_PAUSES_S:,}; got {text!r}")
    return text


def _require_archive(place: str) -> str:
    bucket = place.startswith("s3://") and urlsplit(place).netloc
    if place and not bucket and not Path(place).is_absolute():
        raise ValueError(f"must be an absolute path or s3://BUCKET/PREFIX, got {place!r}")
    return place


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
    """Most samples that the certifications of one key that have not ended may need in the worst case; twice those of
    one certification if there are keys."""
    active_mb: Count | None = None
    """Most megabytes of images and expected certificates of the certifications of one key that have not ended; a
    quarter of `waiting_mb` if there are keys."""
    rate: Annotated[float, Field(ge=0)] = 100.0
    """Most requests of one key in a second, averaged over a few; 0 for any number."""
    deadline_s: Annotated[float, Field(ge=0, le=7 * 86_400)] = 86_400.0
    """The deadline of certifications that name none, in seconds; 0 for none."""
    wait_replicas: Annotated[int, Field(ge=0, le=16)] = 0
    """The replicas of Redis that must have a certification before it counts as accepted (WAIT)."""
    result_ttl: Count = 86_400
    """Seconds for which a certification that was canceled before it began is kept; workers have their own setting."""

    archive: Annotated[str, AfterValidator(_require_archive)] = ""
    """A folder, or s3://BUCKET/PREFIX, where certifications that have ended are kept until they are deleted; none if
    empty. All API processes share it."""
    archive_endpoint: Annotated[str, Field(pattern=r"^(https?://[!-~]+)?$")] = ""
    """The address of an S3-compatible store; that of Amazon's if empty."""
    archive_region: str = "us-east-1"
    """The region of the bucket."""
    archive_credentials_file: Annotated[Path, secret_file("credentials of the archive")] | None = None
    """A mounted file with the access key and the secret key of the bucket, one in each line; those of the environment
    or of the machine's role if there is none."""

    webhook_hosts: str = ""
    """Hosts to which webhooks may be sent, by https, or origins such as http://host:8080; none if empty."""
    webhook_networks: str = ""
    """Networks such as 10.1.0.0/16 of addresses that are not public, to which webhooks may be sent all the same."""
    webhook_secret_file: Annotated[Path, secret_file("secret")] | None = None
    """A mounted file with a secret, from which each key's own secret for signing webhooks is made."""
    webhook_retry_s: Annotated[str, AfterValidator(_require_pauses)] = "5,300,1800,7200,18000,36000,50400"
    """Seconds between two attempts to deliver a webhook, separated by commas; after the last it is given up."""

    @model_validator(mode="after")
    def _require_webhooks(self) -> Self:
        if self.receivers and self.webhook_secret_file is None:
            raise ValueError("webhook_hosts needs webhook_secret_file: webhooks are signed")
        return self

    @model_validator(mode="after")
    def _require_credentials(self) -> Self:
        _ = self.archive_credentials
        return self

    @property
    def archive_credentials(self) -> tuple[str, str] | None:
        """The access key and the secret key of the bucket."""
        if self.archive_credentials_file is None:
            return None
        lines = self.archive_credentials_file.read_text().split()
        if len(lines) != 2:
            raise ValueError(f"archive_credentials_file must have two lines, access key and secret; got {len(lines)}")
        return lines[0], lines[1]

    @property
    def receivers(self) -> Receivers:
        return Receivers.read(listed(self.webhook_hosts), listed(self.webhook_networks))

    @property
    def webhook_secret(self) -> bytes | None:
        """The content of the file, without white space at its ends."""
        return None if self.webhook_secret_file is None else self.webhook_secret_file.read_bytes().strip()

    @property
    def webhook_pauses(self) -> list[float]:
        return pauses(self.webhook_retry_s)

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
    def requests_of_a_key(self) -> int:
        """The most requests of one key that may be under way in a process: a quarter of its connections."""
        return max(1, self.connections // 4)

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
