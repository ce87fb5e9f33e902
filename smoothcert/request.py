"""Requests to the service: one question about all the images that are sent with it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from smoothcert.errors import LEAST_LEVEL
from smoothcert.noise import AnyNoise, resolve
from smoothcert.preparation import Preparation
from smoothcert.procedures import Adaptive, AnyProcedure
from smoothcert.procedures.parameters import WholeNumber
from smoothcert.resizing import AnyResize

MOST_PREPARED = 3000
"""The most entries of `prepared`, which is the most images that any service takes in one request."""
MOST_METADATA = 16
"""The most entries of `metadata`."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
"""The name of an ensemble."""
Level = Annotated[float, Field(strict=True, ge=LEAST_LEVEL, lt=1, allow_inf_nan=False)]
"""An error probability."""
Voting = Literal["soft", "softmax", "hard", "weighted"]


class CertificationRequest(BaseModel):
    """The question about the images. How they are sent with it depends on the content type."""

    model_config = ConfigDict(
        frozen=True,
        use_attribute_docstrings=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"ensemble": "cifar10-resnet20-gaussian-0.25", "radius": 0.25, "procedure": "sequential"}]
        },
    )

    ensemble: Name | None = None
    """The name of the ensemble; may be left out if only one is served, or for the default one."""
    noise: AnyNoise | None = None
    """The noise. If it is left out, it is the one that the ensemble was trained for; 8-bit images then get
    `rounded-gaussian` in place of `gaussian`, which is of the same law and exact."""
    sigma: Annotated[float, Field(strict=True, gt=0, le=100, allow_inf_nan=False)] | None = None
    """Short for Gaussian noise with this standard deviation: `rounded-gaussian` for 8-bit images, `gaussian` for
    floating-point ones. A response states the noise in full instead."""
    allow_noise_mismatch: Annotated[bool, Field(strict=True)] = Field(
        default=False, validation_alias=AliasChoices("allow_noise_mismatch", "allow_sigma_mismatch")
    )
    """Allow a noise that the ensemble was not trained for."""
    radius: Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)] | None = None
    """The radius to prove, in the norm of the noise. `fixed` proves the largest it can and takes none."""
    alpha: Level = 0.001
    """The chance of a false certificate, for each image or for all of them together: see `family_wise`."""
    beta: Level = 0.001
    """The chance of giving up on a radius that could be proved."""
    procedure: AnyProcedure = Field(default_factory=Adaptive)
    """A name, or an object with the name and parameters; `adaptive` if left out."""
    voting: Voting | None = None
    """The voting rule; the ensemble's own if left out."""
    consensus: WholeNumber | None = None
    """K: the other members are evaluated only where the first K disagree. Null for the vote of all members."""
    family_wise: Annotated[bool, Field(strict=True)] = False
    """Share alpha among the images of the request."""
    convert: Literal["none", "rgb", "grey"] = "none"
    """How to convert an image with a palette, transparency or other channels than the ensemble accepts."""
    resize: AnyResize | None = None
    """How to make files of another size fit: `cover`, `stretch` or `center`, or an object. What is certified is the
    resized image, and the certificate says so. Images of another size are refused if this is left out."""
    prepared: Annotated[
        tuple[Preparation | None, ...] | None,
        Field(max_length=MOST_PREPARED, fail_fast=True, exclude_if=lambda value: value is None),
    ] = None
    """What the client did to each image before it sent it, where it cropped or scaled one; null for an image that it
    sent as it was. The certificate repeats it and says that it is not checked."""
    labels: (
        Annotated[
            tuple[Annotated[int, Field(strict=True, ge=0, le=10**6)], ...], Field(max_length=10**6, fail_fast=True)
        ]
        | None
    ) = None
    """The true class of each image; stored with the request and not used."""
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
    """Stored with the request and returned unchanged."""
    nonce: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    """Makes the seed of the noise, together with the request, the images and a secret of the service; the service draws
    one if it is left out. With a nonce of the client, neither side alone chooses the seed."""
    priority: Literal["normal", "high"] = "normal"
    """A request with `high` is taken before those without; where there are keys, a key needs the right to it, and gets
    no larger share."""
    deadline_s: Annotated[float, Field(strict=True, gt=0, le=7 * 86_400, allow_inf_nan=False)] | None = None
    """The certification fails if it has not ended after this many seconds; the service has a default, usually a day."""
    archive_images: Annotated[bool, Field(strict=True)] = False
    """Keep the images in the archive of the service, beside the certification, until that is deleted. They are never
    kept otherwise. A service without an archive refuses it."""
    webhook: Annotated[str, StringConstraints(pattern=r"^https?://[!-~]{1,500}$")] | None = None
    """An address that is sent a signed message (Standard Webhooks) once the certification has ended, at least once. The
    service must allow the host; most services allow none."""

    @model_validator(mode="after")
    def _refuse_local(self) -> Self:
        if self.procedure.local:
            raise ValueError(f"a service does not offer the {self.procedure.name} procedure: it needs two ensembles")
        return self

    @model_validator(mode="after")
    def _settle_sigma(self) -> Self:
        """Drop the shorthand `sigma` where the noise is given in full, too; they must agree."""
        if self.sigma is not None and self.noise is not None:
            resolve(self.noise, self.sigma)
            self.__dict__["sigma"] = None  # the model is frozen, and this is still its construction
            self.__pydantic_fields_set__.discard("sigma")
        return self


class TensorImage(BaseModel):
    """An image as numbers: base64 of the raw values, little-endian, in the order C, H, W or H, W, C."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    dtype: Literal["uint8", "float32", "float64"]
    shape: Annotated[tuple[WholeNumber, ...], Field(min_length=3, max_length=3)]
    data: str


class PostedRequest(CertificationRequest):
    """A request with its images, as JSON."""

    images: Annotated[tuple[str | TensorImage, ...], Field(fail_fast=True, json_schema_extra={"minItems": 1})]
    """Each is base64 of a PNG, JPEG or WebP file, or a tensor."""


class PlanRequest(CertificationRequest):
    """A request without images, for a plan."""

    image_count: Annotated[WholeNumber, Field(le=10**6)] = 1
    """The number of images of the planned request: of the time for all of them, of what a service allows for each, and
    of alpha where `family_wise` shares it among them."""
