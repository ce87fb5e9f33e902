"""What was posted: a question and its images, in whichever of three ways they came."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from app.http import body, multipart, npy
from app.http.body import Bodies, Share
from app.http.errors import ProblemError, invalid
from app.http.npy import Pixels
from app.requests.images import Sent
from app.settings import Settings
from smoothcert.request import CertificationRequest, PostedRequest, TensorImage


@dataclass(frozen=True)
class Submission:
    """A question, and the images as they were sent."""

    request: CertificationRequest
    images: Sequence[Sent] | Pixels
    size: int
    """Bytes of the body."""

    def digest(self) -> str:
        """Of all that was asked, however it was wrapped: a form that is sent again has another boundary."""
        sha = hashlib.sha256(self.request.model_dump_json().encode())
        for image in self.images:
            sent = _bytes(image)
            sha.update(b"\0%d\0" % len(sent))
            sha.update(sent)
        return sha.hexdigest()


def _bytes(image: Sent) -> bytes:
    match image:
        case str():
            return image.encode()
        case bytes():
            return image
        case TensorImage():
            return image.model_dump_json().encode()
        case _:
            return f"{image.dtype.str}{image.shape}".encode() + image.tobytes()


async def read(request: Request, settings: Settings, bodies: Bodies, share: Share) -> Submission:
    """What was posted; ProblemError where it cannot be understood."""
    kind = body.content_type(request, body.JSON, multipart.MEDIA_TYPE, npy.MEDIA_TYPE)
    data = await body.read(request, settings, share)

    def parse() -> Submission:
        match kind:
            case body.JSON:
                parsed = _from_json(data)
            case multipart.MEDIA_TYPE:
                parsed = _from_form(data, request.headers["content-type"], most=settings.request_images)
            case _:
                parsed = _from_npy(data, request.query_params.get("request", "{}"))
        _require_count(len(parsed.images), most=settings.request_images)
        return parsed

    return await bodies.beside(len(data), parse)


def _require_count(count: int, *, most: int) -> None:
    if not count:
        raise invalid("images", "there must be at least one, got 0")
    if count > most:
        raise ProblemError("too_many_images", f"a request may have {most:,} images, got {count:,}")


def _from_json(data: bytes) -> Submission:
    posted = body.parse(data, PostedRequest)
    said = {name: getattr(posted, name) for name in CertificationRequest.model_fields}
    return Submission(CertificationRequest.model_construct(**said), posted.images, len(data))


def _from_form(data: bytes, content_type: str, *, most: int) -> Submission:
    parts = multipart.parse(data, content_type, most=most + 1)
    named = {name: [part.data for part in parts if part.name == name] for name in ("request", "images")}
    if odd := [part.name for part in parts if part.name not in named]:
        raise invalid(odd[0][:100], "is no part of this form; it has one `request` and any number of `images`")
    if len(named["request"]) != 1:
        raise invalid("request", f"the form must have this part once, got it {len(named['request'])} times")
    return Submission(body.parse(named["request"][0], CertificationRequest), named["images"], len(data))


def _from_npy(data: bytes, question: str) -> Submission:
    request = body.parse(question.encode(errors="replace"), CertificationRequest)
    array = npy.read(data)
    if array.ndim != 4:
        shape = list(array.shape)
        raise invalid("images", f"the array has shape {shape}, wanted four axes: [N, C, H, W] or [N, H, W, C]")
    return Submission(request, array, len(data))
