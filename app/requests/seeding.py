"""Draws the seed of a request, in a way that can be shown later not to have been chosen."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

import numpy as np

from app.http.npy import Pixels
from smoothcert.request import CertificationRequest
from smoothcert.seeds import commitment, service_seed

SECRET_BYTES = 32
"""The bytes of a secret that the process draws for itself."""


@dataclass(frozen=True)
class Seeding:
    """The secret of a service, from which all of its seeds are made.

    A secret from a file can be revealed one day; one that the process draws for itself ends with the process.
    """

    secret: bytes
    kept: bool
    """Whether the secret comes from a file."""

    @classmethod
    def of(cls, secret: bytes | None) -> Seeding:
        return cls(secrets.token_bytes(SECRET_BYTES) if secret is None else secret, secret is not None)

    @property
    def commitment(self) -> str | None:
        """What is published of the secret; None if it ends with the process."""
        return commitment(self.secret) if self.kept else None

    def draw(self, request: CertificationRequest, images: Pixels) -> tuple[CertificationRequest, str]:
        """The request with a nonce, and its seed; `images` are the pixels [N, C, H, W] that will be certified."""
        if request.nonce is None:
            request = request.model_copy(update={"nonce": secrets.token_hex(16)})
        return request, service_seed(self.secret, request, [sha256(image) for image in images])


def sha256(image: Pixels) -> str:
    """The sha256 that the certificate of an image states: of float32 pixels in [0, 1], little-endian."""
    if image.dtype == np.uint8:
        image = image.astype(np.float32) / np.float32(255)
    return hashlib.sha256(image.astype("<f4").tobytes()).hexdigest()
