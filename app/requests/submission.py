"""A posted question and its images, in one of three formats: JSON, a multipart form, or an npy array."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from app.http import body, multipart, npy
from app.http.body import Share
from app.http.errors import ProblemError, invalid
from app.http.npy import Pixels
from app.requests.images import SentImage
from app.settings import ApiSettings
from smoothcert.request import CertificationRequest, PostedRequest, TensorImage


@dataclass(frozen=True)
class Submission:
    """A question, and the images as they were sent."""

    request: CertificationRequest
    images: Sequence[SentImage] | Pixels

    def digest(self) -> str:
        """A digest of question and images, not of the body: a form that is sent again has another boundary."""
        sha = hashlib.sha256(self.request.model_dump_json().encode())
        for image in self.images:
            data = _bytes(image)
            sha.update(b"\0%d\0" % len(data))
            sha.update(data)
        return sha.hexdigest()


def _bytes(image: SentImage) -> bytes:
    match image:
        case str():
            return image.encode()
        case bytes():
            return image
        case TensorImage():
            return image.model_dump_json().encode()
        case _:
            return f"{image.dtype.str}{image.shape}".encode() + image.tobytes()


async def read(request: Request, settings: ApiSettings, share: Share) -> Submission:
    """The submission in a request; ProblemError if it cannot be parsed or has too many images."""
    media_type = body.content_type(request, body.JSON, multipart.MEDIA_TYPE, npy.MEDIA_TYPE)
    data = await body.read(request, settings, share)

    def parse() -> Submission:
        match media_type:
            case body.JSON:
                submission = _from_json(data)
            case multipart.MEDIA_TYPE:
                submission = _from_form(data, request.headers["content-type"], most=settings.request_images)
            case _:
                submission = _from_npy(data, request.query_params.get("request", "{}"))
        _require_count(len(submission.images), most=settings.request_images)
        return submission

    return await share.run(parse)


def _require_count(count: int, *, most: int) -> None:
    if not count:
        raise invalid("images", "there must be at least one, got 0")
    if count > most:
        raise ProblemError("too_many_images", f"a request may have {most:,} images at most, got {count:,}")


def _from_json(data: bytes) -> Submission:
    posted = body.parse(data, PostedRequest)
    fields = {name: getattr(posted, name) for name in CertificationRequest.model_fields}
    given = posted.model_fields_set & fields.keys()
    return Submission(CertificationRequest.model_construct(given, **fields), posted.images)


def _from_form(data: bytes, content_type: str, *, most: int) -> Submission:
    parts = multipart.parse(data, content_type, most=most + 1)
    named = {name: [part.data for part in parts if part.name == name] for name in ("request", "images")}
    if unknown := [part.name for part in parts if part.name not in named]:
        raise invalid(
            unknown[0][:100], "is not a part of this form, which has one `request` and any number of `images`"
        )
    if len(named["request"]) != 1:
        raise invalid("request", f"the form must have this part once, got it {len(named['request'])} times")
    return Submission(body.parse(named["request"][0], CertificationRequest), named["images"])


def _from_npy(data: bytes, question: str) -> Submission:
    request = body.parse(question.encode(errors="replace"), CertificationRequest)
    array = npy.read(data)
    if array.ndim != 4:
        raise invalid("images", f"the array must have four axes, [N, C, H, W] or [N, H, W, C]; got {list(array.shape)}")
    return Submission(request, array)
