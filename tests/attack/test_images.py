"""Images that are small as files and large in memory or in time are refused before they are decoded."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from functools import cache

import httpx2
import numpy as np
import pytest
from PIL import Image

from app.requests.images import MOST_PIECES, ImageSpec, _pieces, _require_few_pieces, decode
from tests.support.api import Api, encoded, picture, problem, question, text
from tests.support.player import SHAPE, Player

URL = "/v1/certifications"
GIGABYTE = 1_000_000_000


def chunk(kind: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@cache
def bomb() -> bytes:
    """A zlib stream that inflates to a gigabyte of zeros: one compressed megabyte, repeated."""
    deflate, zeros = zlib.compressobj(9, wbits=-zlib.MAX_WBITS), b"\0" * 1_000_000
    block = deflate.compress(zeros) + deflate.flush(zlib.Z_FULL_FLUSH)  # refers to nothing before it
    checksum = GIGABYTE % 65_521 << 16 | 1  # Adler-32 of zeros
    return b"\x78\xda" + block * (GIGABYTE // len(zeros)) + deflate.flush() + struct.pack(">I", checksum)


PNG = picture()
AFTER_HEAD, BEFORE_END = 33, len(PNG) - 12


def with_chunks(chunks: bytes, at: int = AFTER_HEAD) -> bytes:
    return PNG[:at] + chunks + PNG[at:]


def jpeg(**options: object) -> bytes:
    rows = np.random.default_rng(1).integers(0, 256, (SHAPE[1], SHAPE[2], 3), np.uint8)
    return encoded(Image.fromarray(rows), "JPEG", **options)


def resized_jpeg(width: int, height: int) -> bytes:
    file = bytearray(jpeg())
    frame = file.index(b"\xff\xc0")
    file[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(file)


def resized_webp(width: int, height: int) -> bytes:
    file = bytearray(picture(file="WEBP", lossless=True))
    place = file.index(b"VP8L") + 9
    bits = int.from_bytes(file[place : place + 4], "little") >> 28
    file[place : place + 4] = ((width - 1) | (height - 1) << 14 | bits << 28).to_bytes(4, "little")
    return bytes(file)


@pytest.mark.parametrize("side", [5_000, 13_000, 16_383])
@pytest.mark.parametrize("resized", [resized_jpeg, resized_webp])
def test_a_file_that_claims_to_be_huge_is_not_decoded(
    api: Api, player: Player, resized: Callable[[int, int], bytes], side: int
) -> None:
    before, file = api.resident_bytes(), resized(side, side)
    answer = api.client.post(URL, json=question(player.ensemble, images=[text(file)]))
    assert len(file) < 1000
    assert re.search("more than 16,000,000|bomb", problem(answer, "invalid_image").detail)
    assert api.resident_bytes() - before < 50e6


BOMBS: dict[str, Callable[[], bytes]] = {
    "text": lambda: with_chunks(chunk(b"zTXt", b"a\0\0" + bomb())),
    "international text": lambda: with_chunks(chunk(b"iTXt", b"a\0\1\0\0\0" + bomb())),
    "colour profile": lambda: with_chunks(chunk(b"iCCP", b"a\0\0" + bomb())),
    "pixels and more": lambda: PNG[:AFTER_HEAD] + chunk(b"IDAT", bomb()) + chunk(b"IEND"),
    "pixels after the pixels": lambda: with_chunks(chunk(b"IDAT", bomb()), BEFORE_END),
}


@pytest.mark.parametrize("file", BOMBS.values(), ids=BOMBS)
def test_what_inflates_is_not_inflated(api: Api, player: Player, file: Callable[[], bytes]) -> None:
    before = api.resident_bytes()
    answer = api.client.post(URL, json=question(player.ensemble, images=[text(file())]))
    assert answer.status_code in (202, 422), answer.text
    assert api.resident_bytes() - before < 50e6
    if answer.status_code == 202:
        record = player.take()
        assert not player.images(record.id).any()  # only what belongs to the image was read
        player.finish(player.begin(record))


FLOODS: dict[str, Callable[[int], bytes]] = {
    "PNG text": lambda n: with_chunks(chunk(b"tEXt", b"a\0b") * n),
    "PNG unknown": lambda n: with_chunks(chunk(b"abCd") * n),
    "PNG pixels": lambda n: with_chunks(chunk(b"IDAT") * n, BEFORE_END),
    "JPEG comments": lambda n: jpeg()[:2] + b"\xff\xfe\x00\x02" * n + jpeg()[2:],
    "JPEG padding": lambda n: jpeg()[:2] + b"\xff" * n + jpeg()[2:],
    "JPEG junk": lambda n: jpeg()[:2] + b"\0" * n + jpeg()[2:],
    "JPEG scans": lambda n: jpeg(progressive=True)[:-2] + scan() * n + b"\xff\xd9",
}


def scan() -> bytes:
    file = jpeg(progressive=True)
    return file[file.rindex(b"\xff\xda") : -2]


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_file_of_tiny_pieces_is_refused(client: httpx2.Client, player: Player, flood: Callable[[int], bytes]) -> None:
    answer = client.post(URL, json=question(player.ensemble, images=[text(flood(20_000))]))
    assert "chunks, segments or scans" in problem(answer, "invalid_image").detail
    assert client.post(URL, json=question(player.ensemble, images=[text(flood(50))])).status_code in (202, 422)


@pytest.mark.parametrize("file", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("size", [(5, 4), (224, 224), (800, 600)])
def test_ordinary_files_have_few_pieces(file: str, size: tuple[int, int]) -> None:
    rows = np.random.default_rng(2).integers(0, 256, (size[1], size[0], 3), np.uint8)
    options = {"progressive": True} if file == "JPEG" else {}
    sent = encoded(Image.fromarray(rows), file, **options)
    _require_few_pieces(sent)
    assert len(list(_pieces(sent))) < MOST_PIECES + len(sent) // 8192
    assert decode([sent], ImageSpec(3, size[1], size[0], "none", 16_000_000)).shape == (1, 3, size[1], size[0])


def test_the_pieces_are_those_of_the_file() -> None:
    assert [PNG[at + 4 : at + 8] for at in _pieces(PNG)] == [b"IHDR", b"IDAT", b"IEND"]
    file = jpeg(progressive=True, comment=b"\xff\xda" * 9)  # which are not scans, where they stand
    kinds = [file[at : at + 2] for at in _pieces(file)]
    assert kinds[:2] == [b"\xff\xe0", b"\xff\xfe"]
    assert kinds.count(b"\xff\xda") == file.count(b"\xff\xda") - 9
