"""The keyword arguments that put the question about the images, and the request that they make."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, SupportsIndex, TypedDict, TypeVar

import numpy as np
from pydantic import ValidationError

from smoothcert.client.errors import InvalidRequestError
from smoothcert.errors import explain, suggestion
from smoothcert.noise import NOISES, Noise
from smoothcert.preparation import Preparation
from smoothcert.procedures import PROCEDURES, Parameters, preferred
from smoothcert.request import CertificationRequest, Voting
from smoothcert.resizing import Fit, Resize

OLD_NAMES = {"allow_sigma_mismatch"}
"""Fields that are still accepted under another name."""
OPTIONS = ("attest", "image_count", "job_images", "on_timeout", "out", "progress", "wait_timeout")
"""The arguments of the methods of a client that are not fields of a request."""

SAMPLES = ("samples", "max_samples", "n")
"""Words for the number of samples, which is not a field of a request."""

Request = TypeVar("Request", bound=CertificationRequest)


class RequestFields(TypedDict, total=False):
    """The fields of `CertificationRequest`, which documents each; the service decides about those that are left out."""

    ensemble: str | None
    noise: Noise | Mapping[str, Any] | None
    sigma: float | None
    allow_noise_mismatch: bool
    radius: float | None
    alpha: float
    beta: float
    procedure: str | Parameters | Mapping[str, Any]
    voting: Voting | None
    consensus: SupportsIndex | None
    family_wise: bool
    convert: Literal["none", "rgb", "grey"]
    resize: Fit | Resize | Mapping[str, Any] | None
    prepared: Iterable[Preparation | Mapping[str, Any] | None] | None
    labels: Iterable[SupportsIndex | str] | None
    metadata: Mapping[str, str] | None
    nonce: str | None
    priority: Literal["normal", "high"]
    deadline_s: float | None
    archive_images: bool
    webhook: str | None


def make_request(keywords: RequestFields, kind: type[Request], **more: Any) -> Request:
    """The request that the keywords make; InvalidRequestError if one of them is wrong or unknown."""
    for family in (NOISES, PROCEDURES):
        family.prepare()  # before anything is sent: pydantic swallows a Ctrl-C that comes while it builds a validator
    fields: dict[str, Any] = {name: _plain(value) for name, value in {**keywords, **more}.items()}
    if isinstance(labels := fields.get("labels"), Iterable) and not isinstance(labels, str | bytes | Mapping):
        fields["labels"] = tuple(map(_whole, labels))
    if unknown := sorted(fields.keys() - kind.model_fields.keys() - OLD_NAMES):
        raise InvalidRequestError(f"there is no argument {unknown[0]}{_instead_of(unknown[0], kind)}")
    try:
        request = kind.model_validate(fields)
    except ValidationError as error:
        raise InvalidRequestError(explain(error, whole="the request")) from None
    if "procedure" in fields:
        return request
    return request.model_copy(update={"procedure": preferred(request.radius, request.noise)})


def _instead_of(unknown: str, kind: type[CertificationRequest]) -> str:
    """The end of the sentence about an unknown argument: the nearest one, or where the number of samples belongs."""
    if get_close_matches(unknown, SAMPLES, cutoff=0.8):
        return (
            ": the number of samples belongs to the procedure, {'name': 'optimal', 'max_samples': 1000} with a radius "
            "to prove and {'name': 'fixed', 'n': 1000} without one; predict takes `n`"
        )
    return suggestion(unknown, {*kind.model_fields, *OPTIONS})


def _plain(value: Any) -> Any:
    """A numpy number as a Python number, also inside a mapping; any other value unchanged."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _whole(label: Any) -> Any:
    """A whole number of numpy or torch as an int; any other value unchanged, so that it is refused with its place."""
    try:
        return label if isinstance(label, bool) else operator.index(label)
    except TypeError:
        return label


def payload(request: CertificationRequest) -> dict[str, Any]:
    """The request as JSON; fields that were not set are left out, so that the service decides about them."""
    fields = request.model_dump(mode="json", exclude_unset=True)
    if "procedure" in fields:
        # the name of a procedure has a default, so it may be missing from the fields that were set
        fields["procedure"] = request.procedure.model_dump(mode="json")
    return fields
