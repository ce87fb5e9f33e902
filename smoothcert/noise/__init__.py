"""Noises: one file each, with everything that a noise knows about itself.

A further noise is a new file here, its entry in `NOISES`, and its test.
"""

from __future__ import annotations

from typing import Annotated, Any

from smoothcert.errors import DomainError
from smoothcert.kinds import Kinds
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_linf import GaussianLinf
from smoothcert.noise.noise import Noise, Norm, Source
from smoothcert.noise.replacement import Replacement
from smoothcert.noise.rounded_gaussian import RoundedGaussian
from smoothcert.noise.uniform import Uniform

NOISES: Kinds[Noise] = Kinds("noise")
for kind in (Gaussian, RoundedGaussian, GaussianLinf, Uniform, Replacement):
    NOISES.add(kind)

AnyNoise = Annotated[Noise, NOISES]
"""Every noise that a request or a certificate can name, as a pydantic type."""


def resolve(noise: Any = None, sigma: float | None = None) -> Noise | None:
    """The noise that somebody named, in full or by the shorthand `sigma` for Gaussian noise; None for neither.

    This is the only place that knows the shorthand. DomainError where both are given and differ.
    """
    if sigma is None:
        return None if noise is None else NOISES.validate(noise)
    shorthand = Gaussian(sigma)
    if noise is not None and (named := NOISES.validate(noise)) != shorthand:
        raise DomainError(f"sigma {sigma:g} is short for Gaussian noise, and the noise is {named.label}: leave one out")
    return shorthand


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
    "Uniform",
    "resolve",
]
