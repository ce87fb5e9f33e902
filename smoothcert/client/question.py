"""What is asked about the images, as keywords."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, Literal, SupportsIndex, TypedDict, TypeVar

import numpy as np
from pydantic import ValidationError

from smoothcert.client.errors import InvalidRequestError
from smoothcert.errors import explain
from smoothcert.noise import Noise
from smoothcert.procedures import Parameters
from smoothcert.request import CertificationRequest, Voting

Asked = TypeVar("Asked", bound=CertificationRequest)


class RequestFields(TypedDict, total=False):
    """The fields of `CertificationRequest`, which says what each means; the service decides what is left out."""

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
    labels: Iterable[SupportsIndex] | None
    metadata: Mapping[str, str] | None
    priority: Literal["normal", "high"]
    deadline_s: float | None


def ask(fields: RequestFields, kind: type[Asked], **more: Any) -> Asked:
    """The request that the keywords make; InvalidRequestError where one of them is wrong or unknown."""
    said: dict[str, Any] = {name: _plain(value) for name, value in {**fields, **more}.items()}
    if isinstance(labels := said.get("labels"), Iterable) and not isinstance(labels, str | bytes | Mapping):
        said["labels"] = tuple(map(_whole, labels))
    try:
        return kind.model_validate(said)
    except ValidationError as error:
        raise InvalidRequestError(explain(error)) from None


def _plain(value: Any) -> Any:
    """A number of numpy as Python has it; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _whole(label: Any) -> Any:
    """A whole number of numpy or torch as Python has it; anything else as it is, to be refused with its place."""
    try:
        return label if isinstance(label, bool) else operator.index(label)
    except TypeError:
        return label


def told(request: CertificationRequest) -> dict[str, Any]:
    """The request as JSON has it; what was not asked is not said, so that the service decides."""
    said = request.model_dump(mode="json", exclude_unset=True)
    if "procedure" in said:
        said["procedure"] = request.procedure.model_dump(mode="json")  # its name need not have been set to be its name
    return said
