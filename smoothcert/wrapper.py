"""What a file says of all of its certificates, and where they contradict it or each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from smoothcert.certificate import FORMATS, Certificate
from smoothcert.errors import MOST, SmoothcertError, explain, shown
from smoothcert.noise import shorthand
from smoothcert.request import CertificationRequest
from smoothcert.seeds import bound_seed

STATED = ("radius", "alpha", "beta")
"""The numbers of a question that the head of a ledger may state by themselves."""


@dataclass(frozen=True)
class Wrapper:
    """The certification or the run that certificates belong to; a plain list of certificates has none."""

    stated: Mapping[str, Any] = field(default_factory=dict)
    """What the file says of each certificate: radius, alpha, beta, ensemble, ..., by their names here."""
    images: int | None = None
    """The number of images of a certification that succeeded, each of which has a certificate."""
    one_ensemble: bool = False
    """Whether all certificates must be of one ensemble."""
    problems: tuple[str, ...] = ()

    @classmethod
    def of_certification(cls, payload: Mapping[str, Any]) -> Wrapper:
        """The wrapper that the service puts around the certificates of a request."""
        progress = payload.get("progress")
        total = progress.get("images_total") if isinstance(progress, Mapping) else None
        images = total if payload.get("status") == "succeeded" and isinstance(total, int) else None
        named = {"ensemble.name": payload["ensemble"]} if "ensemble" in payload else {}
        if "request" not in payload:
            return cls(named, images, one_ensemble=True)
        stated, problems = _expected(payload["request"], _images(total, payload["certificates"]))
        if named and stated.get("ensemble.name", payload["ensemble"]) != payload["ensemble"]:
            requested = stated["ensemble.name"]
            problems = (*problems, f"ensemble: is {shown(payload['ensemble'])}, the request is for {shown(requested)}")
        return cls({**stated, **named}, images, one_ensemble=True, problems=problems)

    @classmethod
    def of_run(cls, run: Mapping[str, Any]) -> Wrapper:
        """The head of a ledger, of `certify_many` or of a benchmark."""
        if "question" in run:
            stated, problems = _expected(run["question"], 1)
            return cls(stated, one_ensemble=True, problems=tuple(f"line 1: {each}" for each in problems))
        stated = {name: run[name] for name in STATED if name in run}
        if "ensemble" in run:
            stated["ensemble.digest"] = run["ensemble"]
        return cls(stated, one_ensemble=True)

    def contradictions(self, certificate: Certificate) -> Iterator[str]:
        """Where a certificate says something else than the file around it."""
        seen = _answered(certificate)
        for name, wanted in self.stated.items():
            if name in seen and seen[name] != wanted:
                yield f"{name}: is {shown(seen[name])}, the file around it says {shown(wanted)}"


class Others:
    """The certificates that were seen before, so that nothing counts twice.

    With `apart`, an attestation may stand beside the certificate that it attests, where nothing is counted.
    """

    def __init__(self, *, apart: bool = False) -> None:
        self._apart = apart
        self._digests: dict[tuple[str, bool], str] = {}
        self._noises: dict[tuple[str, int], str] = {}

    def repetition(self, certificate: Certificate, place: str, *, sealed: bool = False) -> str | None:
        """A sentence if the certificate, or the samples that it rests on, were seen before under another name."""
        kind = sealed and self._apart
        if (before := self._digests.setdefault((certificate.digest, kind), place)) != place:
            return f"is the same certificate as {before}"
        if self._apart and (certificate.digest, not kind) in self._digests:
            return None
        if (noise := _noise(certificate)) is None:
            return None
        if (before := self._noises.setdefault(noise, place)) != place:
            return f"rests on the same samples as {before}: they have the same seed and image"
        return None


@dataclass
class OneEnsemble:
    """Notices a second ensemble where there must be one."""

    first: tuple[str, str] | None = None

    def objection(self, certificate: Certificate) -> str | None:
        if certificate.provenance is None:
            return None
        ensemble = certificate.provenance.ensemble
        seen = (ensemble.name, ensemble.digest)
        self.first = self.first or seen
        if seen == self.first:
            return None
        one, other = (f"{name} ({digest[:12]})" for name, digest in (seen, self.first))
        return f"is of the ensemble {one}, and those before it are of {other}: the file mixes ensembles"


def _images(total: object, certificates: object) -> int | None:
    """The number of images that share alpha; None if the file does not tell."""
    if isinstance(total, int):
        return total if 0 < total <= MOST else None
    return len(certificates) or None if isinstance(certificates, list) else None


def _expected(payload: Any, images: int | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What the certificates of a request must say; fields that the request leaves open are not in it."""
    try:
        request = CertificationRequest.model_validate(payload)
    except ValidationError as error:
        return {}, (f"request: {explain(error, whole='it')}",)
    except SmoothcertError as error:
        return {}, (f"request: {error}",)
    stated = {
        "radius": request.radius,
        "alpha": _share(request, images),
        "beta": request.beta,
        "procedure": request.procedure,
        "family_wise": request.family_wise,
        "ensemble.consensus": request.consensus,
    }
    open_fields = {
        "noise": request.noise,
        "sigma": request.sigma,
        "ensemble.name": request.ensemble,
        "ensemble.voting": request.voting,
        "nonce": request.nonce,
    }
    return stated | {name: value for name, value in open_fields.items() if value is not None}, ()


def _share(request: CertificationRequest, images: int | None) -> float | None:
    """The alpha of each image; None if nobody knows how many share it, which no certificate agrees with."""
    if not request.family_wise:
        return request.alpha
    return None if images is None else request.alpha / images


def _answered(certificate: Certificate) -> dict[str, Any]:
    """The same fields as a certificate states them."""
    seen: dict[str, Any] = {
        "radius": certificate.target_radius,
        "beta": certificate.beta,
        "procedure": certificate.procedure,
        "noise": certificate.noise,
        "sigma": shorthand(certificate.noise),
        "family_wise": certificate.family_wise is not None,
    }
    if certificate.alpha is not None:
        seen["alpha"] = certificate.alpha
    if (provenance := certificate.provenance) is not None:
        ensemble = provenance.ensemble
        seen |= {
            "ensemble.name": ensemble.name,
            "ensemble.digest": ensemble.digest,
            "ensemble.voting": ensemble.voting,
            "ensemble.consensus": ensemble.consensus,
            "nonce": provenance.sampling.nonce,
        }
    return seen


def _noise(certificate: Certificate) -> tuple[str, int] | None:
    """What determines the noise of a certificate; None if it does not say."""
    if certificate.provenance is None:
        return None
    sampling, ensemble = certificate.provenance.sampling, certificate.provenance.ensemble
    if certificate.format == FORMATS[0]:
        return sampling.seed, sampling.image
    return bound_seed(
        sampling.seed, certificate.question, ensemble, certificate.provenance.input.sha256
    ), sampling.image
