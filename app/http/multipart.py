"""Multipart forms (RFC 7578): the parts of a body that has been read whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.http.errors import ProblemError

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MEDIA_TYPE = "multipart/form-data"


@dataclass
class FormPart:
    """A field or a file of a form."""

    name: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    data: bytes = b""


def parse(body: bytes, content_type: str, *, most: int) -> list[FormPart]:
    """The parts in their order; ProblemError if the body is not a form or has more than `most` parts."""
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if not boundary:
        raise ProblemError("malformed_multipart", "the content type names no boundary")
    reader = _Reader(most)
    try:
        parser = MultipartParser(boundary, reader.callbacks())
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise ProblemError("malformed_multipart", f"the form cannot be read: {error}") from None
    if not reader.ended:
        raise ProblemError("malformed_multipart", "the form is not complete: the closing boundary is missing")
    return [_named(part) for part in reader.parts]


def _named(part: FormPart) -> FormPart:
    disposition, options = parse_options_header(part.headers.get("content-disposition", ""))
    if disposition != b"form-data" or b"name" not in options:
        raise ProblemError(
            "malformed_multipart", "a part has no name: Content-Disposition: form-data; name=... is missing"
        )
    part.name = options[b"name"].decode(errors="replace")
    return part


class _Reader:
    """Collects the parts that the parser reports through callbacks."""

    def __init__(self, most: int) -> None:
        self.parts: list[FormPart] = []
        self.ended = False
        self._most = most
        self._chunks: list[bytes] = []
        self._field = self._value = b""

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._part_begin,
            "on_part_data": self._part_data,
            "on_part_end": self._part_end,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_end": self._end,
        }

    def _part_begin(self) -> None:
        if len(self.parts) == self._most:
            raise ProblemError(
                "too_many_images", f"the form has more than {self._most:,} parts, which is the most that is accepted"
            )
        self.parts.append(FormPart())
        self._chunks = []

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        self._chunks.append(data[start:end])

    def _part_end(self) -> None:
        self.parts[-1].data = b"".join(self._chunks)

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self.parts[-1].headers[self._field.decode("latin-1").lower()] = self._value.decode("latin-1")
        self._field = self._value = b""

    def _end(self) -> None:
        self.ended = True
