"""Seeds: where the randomness of a certificate comes from, and what it is bound to."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from smoothcert.canonical import digest

if TYPE_CHECKING:
    from smoothcert.certificate import EnsembleRecord
    from smoothcert.question import Question
    from smoothcert.request import CertificationRequest


def new_seed() -> str:
    """128 random bits. The certifier draws the seed: a caller who chooses it could search for a lucky certificate."""
    return secrets.token_hex(16)


def bound_seed(seed: str, question: Question, ensemble: EnsembleRecord, sha256: str) -> str:
    """The seed of the noise for one question about one image, which is given by the sha256 of its pixels.

    Another question has other noise. Otherwise one could draw with one seed for every procedure and show the luckiest
    of the certificates, and a replay would confirm it.
    """
    return digest(
        {
            "seed": seed,
            "ensemble": ensemble.digest,
            "voting": ensemble.voting,
            "consensus": ensemble.consensus,
            "pixels": sha256,
            "noise": question.noise.parameters(),
            "procedure": question.procedure.model_dump(mode="json"),
            "radius": question.radius,
            "alpha": question.alpha,
            "beta": question.beta,
        }
    )


def service_seed(secret: bytes, request: CertificationRequest, pixels: Sequence[str]) -> str:
    """The seed that a service with this secret must take for a request, its nonce included.

    `pixels` are the sha256 of the images, as certificates state them. The service publishes the `commitment` of the
    secret. Once it reveals the secret itself, anybody can check that the seed was not chosen.
    """
    message = digest({"request": request.model_dump(mode="json", exclude_defaults=True), "pixels": list(pixels)})
    return hmac.new(secret, message.encode(), hashlib.sha256).hexdigest()[:32]


def commitment(secret: bytes) -> str:
    """What a service publishes of its secret: it fixes the secret and does not reveal it."""
    return hashlib.sha256(b"smoothcert/seed-secret/" + secret).hexdigest()
