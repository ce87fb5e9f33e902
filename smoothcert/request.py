"""What is asked of the service: one question about every image that is sent along."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from smoothcert.errors import LEAST_LEVEL
from smoothcert.noise import AnyNoise, resolve
from smoothcert.procedures import Adaptive, AnyProcedure
from smoothcert.procedures.parameters import WholeNumber

MOST_METADATA = 16

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
"""Of an ensemble."""
Level = Annotated[float, Field(strict=True, ge=LEAST_LEVEL, lt=1, allow_inf_nan=False)]
"""An error probability."""
Voting = Literal["soft", "softmax", "hard", "weighted"]


class CertificationRequest(BaseModel):
    """A question. How the images are sent with it depends on the content type."""

    model_config = ConfigDict(
        frozen=True,
        use_attribute_docstrings=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"ensemble": "cifar10-resnet20-gaussian-0.25", "radius": 0.25, "procedure": "sequential"}]
        },
    )

    ensemble: Name | None = None
    """Which ensemble is asked; may be left out where only one is served."""
    noise: AnyNoise | None = None
    """The noise; the one that the ensemble was trained for, if left out."""
    sigma: Annotated[float, Field(strict=True, gt=0, le=100, allow_inf_nan=False)] | None = None
    """Short for Gaussian noise with this standard deviation. An answer states the noise in full instead."""
    allow_noise_mismatch: Annotated[bool, Field(strict=True)] = Field(
        default=False, validation_alias=AliasChoices("allow_noise_mismatch", "allow_sigma_mismatch")
    )
    """Allow a noise that the ensemble was not trained for."""
    radius: Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)] | None = None
    """The radius to prove, in the norm of the noise. `fixed` proves the largest it can and takes none."""
    alpha: Level = 0.001
    """The chance of a false certificate is at most this, for each image or for all of them: see `family_wise`."""
    beta: Level = 0.001
    """The chance of giving up too early."""
    procedure: AnyProcedure = Field(default_factory=Adaptive)
    """By name, or with its parameters; `adaptive` if left out."""
    voting: Voting | None = None
    """The ensemble's own rule, if left out."""
    consensus: WholeNumber | None = None
    """K: the other members are asked only where the first K disagree. Null for the vote of all."""
    family_wise: Annotated[bool, Field(strict=True)] = False
    """Share alpha among the images of the request."""
    convert: Literal["none", "rgb", "grey"] = "none"
    """What to do with an image that has a palette, transparency or other channels than the ensemble takes."""
    labels: (
        Annotated[
            tuple[Annotated[int, Field(strict=True, ge=0, le=10**6)], ...], Field(max_length=10**6, fail_fast=True)
        ]
        | None
    ) = None
    """The true class of each image; kept beside the certificates, not used."""
    metadata: (
        Annotated[
            dict[
                Annotated[str, StringConstraints(min_length=1, max_length=64)],
                Annotated[str, StringConstraints(max_length=256)],
            ],
            Field(max_length=MOST_METADATA),
        ]
        | None
    ) = None
    """Given back as it is."""
    priority: Literal["normal", "high"] = "normal"
    """`high` is put before all that wait."""
    deadline_s: Annotated[float, Field(strict=True, gt=0, le=7 * 86_400, allow_inf_nan=False)] | None = None
    """Give up if there is no answer after so many seconds."""

    @model_validator(mode="after")
    def _resolve_sigma(self) -> Self:
        """State the noise in full where it was given by its shorthand."""
        if self.sigma is not None:
            resolved = {"noise": resolve(self.noise, self.sigma), "sigma": None}
            self.__dict__.update(resolved)  # the model is frozen for everybody else
            self.__pydantic_fields_set__.add("noise")
            self.__pydantic_fields_set__.discard("sigma")
        return self


class TensorImage(BaseModel):
    """An image as numbers: base64 of the raw values, little-endian, in the order C, H, W (or H, W, C)."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    dtype: Literal["uint8", "float32", "float64"]
    shape: Annotated[tuple[WholeNumber, ...], Field(min_length=3, max_length=3)]
    data: str


class PostedRequest(CertificationRequest):
    """A question with its images, as JSON."""

    images: Annotated[tuple[str | TensorImage, ...], Field(fail_fast=True, json_schema_extra={"minItems": 1})]
    """Each is base64 of a PNG, JPEG or WebP file, or a tensor."""


class PlanRequest(CertificationRequest):
    """A question without images: what would it take?"""

    image_count: Annotated[WholeNumber, Field(le=10**6)] = 1
    """Of the request that is planned; counts where alpha is shared."""
