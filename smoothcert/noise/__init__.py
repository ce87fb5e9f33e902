"""Noises: one file each, with everything that a noise knows about itself.

A further noise is a new file here, its entry in `NOISES`, and its test.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import ValidationError

from smoothcert.errors import DomainError, explain, shown
from smoothcert.kinds import Kinds
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_linf import GaussianLinf
from smoothcert.noise.noise import Noise, Norm, Source
from smoothcert.noise.replacement import Replacement
from smoothcert.noise.rounded_gaussian import RoundedGaussian
from smoothcert.noise.splitting import Splitting
from smoothcert.noise.uniform import Uniform

NOISES: Kinds[Noise] = Kinds("noise")
NOISES.add(Gaussian)
NOISES.add(RoundedGaussian)
NOISES.add(GaussianLinf)
NOISES.add(Uniform)
NOISES.add(Replacement)
NOISES.add(Splitting)

AnyNoise = Annotated[Noise, NOISES]
"""Every noise that a request or a certificate can name, as a pydantic type."""


def resolve(noise: Any = None, sigma: float | None = None) -> Noise | None:
    """The noise that somebody named, in full or by the shorthand `sigma` for Gaussian noise; None for neither.

    Only this file knows the shorthand. DomainError where both are given and differ.
    """
    if sigma is None:
        return None if noise is None else NOISES.validate(noise)
    shorthand = Gaussian(sigma)
    if noise is not None and (named := NOISES.validate(noise)) != shorthand:
        raise DomainError(f"sigma {sigma:g} is short for Gaussian noise, and the noise is {named.label}: leave one out")
    return shorthand


def stated(noise: Noise) -> dict[str, Any]:
    """The noise as fields of a file, such that `resolve(**stated(noise)) == noise`.

    Gaussian noise is written by its shorthand, `{"sigma": 0.25}`, as files have always done; every other noise as
    `{"noise": {"name": ..., ...}}` with all its fields.
    """
    if type(noise) is Gaussian:  # not a subclass, which is another noise with the same parameter
        return {"sigma": noise.sigma}
    return {"noise": {"name": noise.name, **noise.parameters()}}


def shorthand(noise: Noise) -> float | None:
    """The `sigma` that stands for a noise in a request; None for a noise that it does not stand for.

    It names a law: 8-bit images get `rounded-gaussian`, which is exact, and others `gaussian`.
    """
    return noise.sigma if type(noise) in (Gaussian, RoundedGaussian) else None  # type: ignore[attr-defined]


def parse_noise(text: str) -> Noise:
    """The noise that a command line names, as `name:parameter=value,...` or as a JSON object.

    `gaussian:sigma=0.25` and `{"name": "gaussian", "sigma": 0.25}` are the same noise. In the first form a value that
    reads as a number is one and every other value is a string; a noise with other parameters takes the JSON form. A
    name alone stands for a noise whose parameters all have defaults. DomainError for every other text.
    """
    try:
        return NOISES.validate(_json_object(text) if text.lstrip().startswith("{") else _name_and_parameters(text))
    except ValidationError as error:
        raise DomainError(f"noise {shown(text)}: {explain(error, whole='')}") from error


def _json_object(text: str) -> Any:
    from smoothcert.certificate import without_repetition  # certificates have a noise

    try:
        return json.loads(text, object_pairs_hook=without_repetition)
    except (ValueError, RecursionError) as error:
        raise DomainError(f"noise {shown(text)} is not valid JSON: {error}") from error


def _name_and_parameters(text: str) -> dict[str, Any]:
    name, _, rest = text.partition(":")
    fields: dict[str, Any] = {"name": name.strip()}
    for part in rest.split(",") if rest else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            point = "; a number has a decimal point, and a comma begins the next parameter" if key.isdecimal() else ""
            raise DomainError(f"noise must be like gaussian:sigma=0.25 or a JSON object, got {shown(text)}{point}")
        if key in fields:
            raise DomainError(f"noise {shown(text)} has the parameter {key} twice")
        fields[key] = _number_or_text(value)
    return fields


def _number_or_text(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


__all__ = [
    "NOISES",
    "AnyNoise",
    "Gaussian",
    "GaussianLinf",
    "Noise",
    "Norm",
    "Replacement",
    "RoundedGaussian",
    "Source",
    "Splitting",
    "Uniform",
    "parse_noise",
    "resolve",
    "shorthand",
    "stated",
]
