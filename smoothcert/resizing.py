"""Resizing: how an image of another size is made one that an ensemble takes, and the record of it in a certificate.

An image is always resized in one step: a box of the source becomes the whole result. What is certified is the result,
whose pixels the certificate identifies by their sha256; its radius is measured there and not in the source.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from smoothcert.errors import DomainError
from smoothcert.frozen import Frozen

METHODS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4}
"""Pillow's number of each method."""
MOST_SIDE = 1 << 20
"""The most pixels of a side that a record may state."""

Fit = Literal["cover", "stretch", "center"]
Method = Literal["nearest", "lanczos", "bilinear", "bicubic", "box"]
Side = Annotated[int, Field(strict=True, ge=1, le=MOST_SIDE)]
Size = tuple[Side, Side]
"""Width and height."""
Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in pixels of the source; they need not be whole."""


class Resize(Frozen):
    """How images of another size are made to fit; the name of a fit stands for its defaults."""

    fit: Fit
    """`cover` takes the largest box in the centre of the image that has the right proportions, `stretch` the whole
    image, whatever its proportions are, and `center` cuts the right number of pixels out of the centre."""
    method: Method = "bicubic"
    """The method of Pillow; `center` needs none."""
    share: Annotated[float, Field(strict=True, ge=0.01, le=1)] = 1.0
    """The share of the sides of the box that `cover` keeps: 0.875 is the 224 of 256 pixels that are usual for
    ImageNet."""
    sources: Annotated[tuple[Size, ...] | None, Field(exclude_if=lambda value: value is None)] = None
    """Width and height of each image as it was sent; the service sets this, whatever a client sends."""
    by: Annotated[str | None, Field(max_length=100, exclude_if=lambda value: value is None)] = None
    """The library that has resized the images; the service sets this, whatever a client sends."""

    @model_validator(mode="after")
    def _settle(self) -> Self:
        if self.share != 1 and self.fit != "cover":
            raise DomainError(f"a share goes with the fit cover, and this is {self.fit}")
        return self

    def box(self, source: Size, size: Size) -> Box:
        """The part of the source that becomes an image of this size; DomainError if `center` finds too few pixels."""
        (width, height), (wanted, tall) = source, size
        if self.fit == "stretch":
            return 0.0, 0.0, float(width), float(height)
        if self.fit == "center":
            if width < wanted or height < tall:
                raise DomainError(
                    f"is {width} x {height} (width x height), and `center` cuts {wanted} x {tall} out of it"
                )
            aside, above = (width - wanted) // 2, (height - tall) // 2
            return float(aside), float(above), float(aside + wanted), float(above + tall)
        # The largest box of these proportions touches two sides; whole numbers decide which, so no rounding does.
        if width * tall > height * wanted:
            across, down = height * wanted / tall, float(height)
        else:
            across, down = float(width), width * tall / wanted
        left, top = (width - across * self.share) / 2, (height - down * self.share) / 2
        return left, top, width - left, height - top

    def record(self, image: int, size: Size) -> ResizeRecord | None:
        """The record of one of the images; None before the service has seen them."""
        if self.sources is None or image >= len(self.sources):
            return None
        source = self.sources[image]
        method = None if self.fit == "center" else self.method
        box = self.box(source, size)
        return ResizeRecord(
            fit=self.fit, method=method, share=self.share, source=source, box=box, size=size, by=self.by or "unknown"
        )


class ResizeRecord(Frozen):
    """The box of the source became the image that was certified."""

    fit: Fit
    method: Method | None
    """Null where pixels were only cut out."""
    share: Annotated[float, Field(gt=0, le=1)]
    source: Size
    box: tuple[
        Annotated[float, Field(allow_inf_nan=False)],
        Annotated[float, Field(allow_inf_nan=False)],
        Annotated[float, Field(allow_inf_nan=False)],
        Annotated[float, Field(allow_inf_nan=False)],
    ]
    size: Size
    by: str
    """The library and its version, since another one may compute other pixels."""

    def objection(self, shape: tuple[int, ...]) -> str | None:
        """What is wrong with the record of an image of this shape [C, H, W]; None where nothing is."""
        if self.size != (shape[-1], shape[-2]):
            return f"has the size {list(self.size)}, and the image has the shape {list(shape)}"
        if (self.method is None) != (self.fit == "center"):
            return f"has the fit {self.fit} and the method {self.method}"
        try:
            expected = Resize(fit=self.fit, share=self.share).box(self.source, self.size)
        except (DomainError, ValueError) as error:
            return str(error)
        return None if self.box == expected else f"has the box {list(self.box)}, which must be {list(expected)}"

    def apply(self, image: Any) -> Any:
        """A Pillow image, resized as it is recorded."""
        if self.method is None:
            return image.crop(tuple(map(int, self.box)))
        return image.resize(self.size, METHODS[self.method], box=self.box)

    def __str__(self) -> str:
        left, top, right, bottom = (f"{each:g}" for each in self.box)
        (width, height), (wide, tall) = self.source, self.size
        part = (
            "the whole" if self.box == (0, 0, width, height) else f"the box from ({left}, {top}) to ({right}, {bottom})"
        )
        how = "cut out" if self.method is None else f"resized to {wide} x {tall} by the method {self.method}"
        return f"{part} of a source of {width} x {height} pixels, {how} ({self.by})"


def _named(value: Any) -> Any:
    return {"fit": value} if isinstance(value, str) else value


AnyResize = Annotated[Resize, BeforeValidator(_named, json_schema_input_type=Fit | Resize)]
"""An object, or the name of a fit."""
