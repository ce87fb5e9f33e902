"""Images that cannot be certified as they are get a clear 4xx, and nothing is queued."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import httpx2
import numpy as np
import pytest
from PIL import Image

from tests.support.api import Api, encoded, npy, picture, problem, question, tensor, text
from tests.support.player import SHAPE, Player
from tests.support.refusal import CHANNELS, HEIGHT, NPY, URL, WIDTH, nothing_is_queued, refused

__all__ = ["nothing_is_queued"]


# --- images


def test_another_size_is_refused(client: httpx2.Client, player: Player) -> None:
    for size in ((WIDTH + 1, HEIGHT), (HEIGHT, WIDTH), (1, 1)):
        wrong = text(picture(size=size))
        refused(
            client,
            player,
            "invalid_image",
            "images.1",
            f"{size[0]} x {size[1]}",
            "5 x 4",
            images=[text(picture()), wrong],
        )
    refused(client, player, "invalid_image", "[3, 5, 4]", "[3, 4, 5]", images=[tensor(np.zeros((3, 5, 4)))])


def test_everything_that_is_wrong_with_an_image_is_told_at_once(client: httpx2.Client, player: Player) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    wrong = text(picture("RGBA", size=(9, 9), exif=exif.tobytes()))
    sentence = (
        "images.0: is 9 x 9 (width x height), wanted 5 x 4; `resize`: 'cover' changes that. It has EXIF orientation 6; "
        "rotate its pixels and remove the tag. It is RGBA with transparency, wanted RGB with 8 bits; `convert`: 'rgb' "
        "changes that"
    )
    refused(client, player, "invalid_image", sentence, images=[wrong])


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("L", "is grey, wanted RGB with 8 bits"),
        ("RGBA", "is RGBA with transparency"),
        ("LA", "is grey with transparency"),
        ("P", "is P (with a palette)"),
        ("CMYK", "is CMYK"),
        ("1", "is black and white"),
        ("I;16", "is grey with 16 bits"),
    ],
)
def test_another_mode_is_refused_in_words_and_can_be_converted(
    client: httpx2.Client, player: Player, mode: str, kind: str
) -> None:
    file = text(picture(mode, file="JPEG" if mode == "CMYK" else "PNG"))
    refused(client, player, "invalid_image", kind, "RGB", "convert", images=[file])
    answer = client.post(URL, json=question(player.ensemble, images=[file], convert="rgb"))
    assert answer.status_code == 202, answer.text
    assert player.images(answer.json()["id"]).shape == (1, *SHAPE)
    player.play()


def sixteen_bit(colour_type: int, pixel: bytes) -> bytes:
    """A colour PNG with sixteen bits, which Pillow cannot write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, colour_type, 0, 0, 0)
    rows = (b"\0" + pixel * WIDTH) * HEIGHT
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


@pytest.mark.parametrize(("colour_type", "pixel"), [(0, b"\x12\x34"), (2, b"\x12\x34\x56\x78\x9a\xbc")])
def test_sixteen_bits_are_refused_or_their_high_byte_is_taken(
    client: httpx2.Client, player: Player, colour_type: int, pixel: bytes
) -> None:
    file = text(sixteen_bit(colour_type, pixel))
    refused(client, player, "invalid_image", "16 bits", images=[file])
    answer = client.post(URL, json=question(player.ensemble, images=[file], convert="rgb"))
    stored = player.images(answer.json()["id"])
    high = (pixel * 3)[: 2 * CHANNELS : 2] if colour_type == 0 else pixel[::2]
    assert stored[0, :, 0, 0].tolist() == list(high)
    player.play()


def test_a_colour_that_stands_for_nothing_is_transparency(client: httpx2.Client, player: Player) -> None:
    file = text(picture(transparency=(0, 0, 0)))
    refused(client, player, "invalid_image", "transparency", images=[file])


def test_an_ensemble_of_grey_images(client: httpx2.Client, player: Player, players: Callable[..., Player]) -> None:
    grey = players(input_shape=(1, HEIGHT, WIDTH))
    ramp = Image.fromarray(np.arange(HEIGHT * WIDTH, dtype=np.uint8).reshape(HEIGHT, WIDTH) * 12)
    answer = client.post(URL, json=question(grey.ensemble, images=[text(encoded(ramp))]))
    assert np.array_equal(grey.images(answer.json()["id"])[0, 0], np.asarray(ramp))
    grey.play()
    colour = text(encoded(ramp.convert("RGB")))
    problem(client.post(URL, json=question(grey.ensemble, images=[colour])), "invalid_image")
    answer = client.post(URL, json=question(grey.ensemble, images=[colour], convert="grey"))
    assert np.array_equal(grey.images(answer.json()["id"])[0, 0], np.asarray(ramp))
    grey.play()
    refusal = problem(client.post(URL, json=question(grey.ensemble, images=[colour], convert="rgb")), "invalid_image")
    assert "'rgb'" in refusal.detail
    problem(client.post(URL, json=question(player.ensemble, images=[colour], convert="grey")), "invalid_image")
    assert grey.waiting() == []


def test_an_ensemble_of_other_channels_takes_tensors(client: httpx2.Client, players: Callable[..., Player]) -> None:
    four = players(input_shape=(4, HEIGHT, WIDTH))
    refusal = problem(client.post(URL, json=question(four.ensemble)), "invalid_image")
    assert "4 channels" in refusal.detail
    answer = client.post(URL, json=question(four.ensemble, images=[tensor(np.zeros((4, HEIGHT, WIDTH)))]))
    assert answer.status_code == 202


def test_a_shape_that_reads_in_two_ways_is_refused(client: httpx2.Client, players: Callable[..., Player]) -> None:
    cube = players(input_shape=(3, 3, 3))
    request = question(cube.ensemble, images=[tensor(np.zeros((3, 3, 3)))])
    assert "order of its axes" in problem(client.post(URL, json=request), "invalid_image").detail
    assert client.post(URL, json=question(cube.ensemble, images=[text(picture(size=(3, 3)))])).status_code == 202


def animation(file: str) -> bytes:
    frames = [Image.new("RGB", (WIDTH, HEIGHT), colour) for colour in ("red", "green", "blue")]
    return encoded(frames[0], file, save_all=True, append_images=frames[1:])


def noise_jpeg() -> bytes:
    rows = np.random.default_rng(1).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    return encoded(Image.fromarray(rows), "JPEG")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (b"", "decoded"),
        (b"not an image", "decoded"),
        (picture()[:-20], "decoded"),
        (picture()[:40], "decoded"),
        (noise_jpeg()[:-30], "truncated"),
        (picture(file="WEBP")[:30], "decoded"),
        (picture(file="GIF"), "decoded"),
        (picture(file="BMP"), "decoded"),
        (picture(file="TIFF"), "decoded"),
        (animation("PNG"), "3 frames"),
        (animation("WEBP"), "3 frames"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 100, "decoded"),
        (picture().replace(b"IDAT", b"IDAX"), "decoded"),
    ],
)
def test_what_cannot_be_decoded_is_refused(client: httpx2.Client, player: Player, file: bytes, words: str) -> None:
    refused(client, player, "invalid_image", "images.0", words, images=[text(file)])


@pytest.mark.parametrize("file", ["PNG", "JPEG", "WEBP"])
def test_the_three_formats_are_taken(client: httpx2.Client, player: Player, file: str) -> None:
    answer = client.post(URL, json=question(player.ensemble, images=[text(picture(file=file))]))
    assert answer.status_code == 202
    player.play()


@pytest.mark.parametrize("file", ["PNG", "JPEG", "WEBP"])
def test_an_image_that_wants_to_be_turned_is_refused(client: httpx2.Client, player: Player, file: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    refused(client, player, "invalid_image", "orientation 6", images=[text(picture(file=file, exif=exif.tobytes()))])


def bomb(side: int) -> bytes:
    """A small file that claims to be a large image."""
    file = bytearray(picture())
    file[16:24] = struct.pack(">II", side, side)
    file[29:33] = struct.pack(">I", zlib.crc32(bytes(file[12:29])))
    return bytes(file)


@pytest.mark.parametrize("side", [5_000, 12_000, 20_000, 2**31 - 1])
def test_a_bomb_is_not_decoded(client: httpx2.Client, api: Api, player: Player, side: int) -> None:
    before = api.resident_bytes()
    refused(client, player, "invalid_image", images=[text(bomb(side))])
    assert api.resident_bytes() - before < 50e6


def test_a_webp_bomb_is_not_decoded(client: httpx2.Client, api: Api, player: Player) -> None:
    file = picture(size=(4_001, 4_001), file="WEBP")  # a little more than the accepted 16,000,000 pixels
    assert len(file) < 50_000
    before = api.resident_bytes()
    refused(client, player, "invalid_image", "4,001 x 4,001", images=[text(file)])
    assert api.resident_bytes() - before < 40e6  # its pixels take 48 MB


@pytest.mark.parametrize(
    ("value", "words"),
    [(np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite"), (1.001, "1.001"), (-0.25, "-0.25"), (255.0, "255")],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_that_are_no_pixels_are_refused(
    client: httpx2.Client, player: Player, value: float, words: str, dtype: type
) -> None:
    pixels: Any = np.zeros(SHAPE, dtype)
    pixels[1, 2, 3] = value
    refused(client, player, "invalid_image", words, images=[tensor(pixels)])
    request = question(player.ensemble)
    del request["images"]
    answer = client.post(URL, params={"request": json.dumps(request)}, content=npy(pixels[None]), headers=NPY)
    assert words in problem(answer, "invalid_image").detail


@pytest.mark.parametrize("data", ["!", "QUJ", "QUJD\n", "data:image/png;base64,QUJD", "\u00e9"])
def test_what_is_no_base64_is_refused(client: httpx2.Client, player: Player, data: str) -> None:
    refused(client, player, "invalid_image", "base64", images=[data])


def test_a_tensor_must_have_the_bytes_of_its_shape(client: httpx2.Client, player: Player) -> None:
    short = {"dtype": "float32", "shape": list(SHAPE), "data": text(b"\0" * 60)}
    refused(client, player, "invalid_image", "240 bytes", "60", images=[short])
    huge = {"dtype": "float64", "shape": [2**50, 2**50, 2**50], "data": ""}
    refused(client, player, "invalid_image", "bytes", images=[huge])


# --- npy


def header(described: str, version: bytes = b"\x01\x00") -> bytes:
    padded = described.encode() + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(padded)) + padded


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x93NUMPY",
        npy(np.zeros((1, *SHAPE)))[:-1],
        npy(np.zeros((1, *SHAPE))) + b"x",
        npy(np.zeros((1, *SHAPE), np.int64)),
        npy(np.zeros((1, *SHAPE), np.complex64)),
        npy(np.array(["text"])),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 3, 1000000, 1000000)}"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3, 4, 5)}"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -3, 4, 5)}") + b"\0" * 480,
        header("{'descr': '|O', 'fortran_order': False, 'shape': (1, 3, 4, 5)}") + b"cos\nsystem\n(S'true'\ntR.",
        header("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': " + "(" * 9000 + "}"),
        header("__import__('os').system('true')"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (0,)}", version=b"\x09\x00"),
    ],
)
def test_what_is_no_npy_file_is_refused(client: httpx2.Client, player: Player, body: bytes) -> None:
    request = {"ensemble": player.ensemble, "radius": 0.25}
    answer = client.post(URL, params={"request": json.dumps(request)}, content=body, headers=NPY)
    problem(answer, "malformed_npy")


def test_a_pickle_is_never_loaded(client: httpx2.Client, player: Player) -> None:
    file = io.BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    problem(client.post(URL, content=file.getvalue(), headers=NPY), "malformed_npy")


def test_an_array_needs_four_axes_and_some_images(client: httpx2.Client, player: Player) -> None:
    request = {"request": json.dumps({"ensemble": player.ensemble, "radius": 0.25})}
    answer = client.post(URL, params=request, content=npy(np.zeros(SHAPE)), headers=NPY)
    assert "[3, 4, 5]" in problem(answer, "invalid_request").detail
    problem(client.post(URL, params=request, content=npy(np.zeros((0, *SHAPE))), headers=NPY), "invalid_request")
    endless = header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 0, 4, 5)}")
    problem(client.post(URL, params=request, content=endless, headers=NPY), "malformed_npy")


# --- resizing


@pytest.mark.parametrize("size", [(WIDTH * 3, HEIGHT), (1, 50), (WIDTH, HEIGHT)])
@pytest.mark.parametrize("resize", ["cover", "stretch", {"fit": "cover", "share": 0.5, "method": "nearest"}])
def test_a_file_of_another_size_can_be_resized(
    client: httpx2.Client, player: Player, size: tuple[int, int], resize: Any
) -> None:
    answer = client.post(URL, json=question(player.ensemble, images=[text(picture(size=size))], resize=resize))
    assert answer.status_code == 202, answer.text
    assert player.images(answer.json()["id"]).shape == (1, *SHAPE)
    stated = answer.json()["request"]["resize"]
    assert stated["sources"] == [[*size]]
    assert stated["by"].startswith("Pillow ")
    player.play()


def test_what_a_client_says_of_the_sources_is_replaced(client: httpx2.Client, player: Player) -> None:
    resize = {"fit": "cover", "sources": [[9999, 1]], "by": "me"}
    answer = client.post(URL, json=question(player.ensemble, images=[text(picture(size=(30, 30)))], resize=resize))
    assert answer.json()["request"]["resize"]["sources"] == [[30, 30]]
    assert answer.json()["request"]["resize"]["by"] != "me"
    player.play()


def test_what_cannot_be_resized_is_refused(client: httpx2.Client, player: Player) -> None:
    small = text(picture(size=(WIDTH - 1, HEIGHT)))
    refused(client, player, "invalid_image", "images.0", "cuts", images=[small], resize="center")
    array = tensor(np.zeros(SHAPE, np.uint8))
    refused(client, player, "invalid_image", "only files are resized", images=[array], resize="cover")
    vast = text(picture("L", size=(5000, 5000)))
    refused(client, player, "invalid_image", "5,000 x 5,000", images=[vast], resize="cover")
    refused(client, player, "invalid_image", "PNG, JPEG or WebP", images=[text(b"nothing")], resize="cover")
    for wrong, word in (("fill", "fit"), ({"fit": "center", "share": 0.5}, "share"), ({"fit": "cover", "x": 1}, "x")):
        refused(client, player, "invalid_request", word, images=[small], resize=wrong)
