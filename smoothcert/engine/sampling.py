"""Noise that is a pure function of (seed, image, sample).

Random numbers are drawn in whole blocks of 32 samples, and the generator of a block is seeded by hashing. So sample i
is the same for every batch size, packing, worker and restart. Integers come from Philox and are the same everywhere;
normal numbers come from torch and are the same on one kind of device and, on the CPU, one kind of vector instructions.

A run that another kind of machine goes on with, and whose noise cannot be continued there, has a further *stream* of
the seed from that sample on.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from smoothcert.engine.device import placed
from smoothcert.engine.errors import StreamError
from smoothcert.engine.pixels import floats
from smoothcert.errors import shown
from smoothcert.noise import Noise
from smoothcert.noise.grid import BITS
from smoothcert.noise.noise import Integers

BLOCK = 32
"""The samples of a block."""
STREAM_SHIFT = 24
"""A stream has 2^24 blocks, which are 500 million samples; 256 streams fit into 32 bits."""
KEPT_BYTES = 1 << 26
"""The most bytes of noise, and of pixels made ready for it, that are kept for all images together; thousands of live
images would fill a device."""


Streams = tuple[tuple[int, int], ...]
"""(start, stream): from the sample `start` on, the noise is that of this stream. The first start is 0."""


@dataclass
class NoisyImage:
    """One image and the stream of its noisy copies."""

    noise: Noise
    pixels: Tensor
    """[C, H, W] on the device where the samples are drawn: bytes, or float32."""
    seed: str
    image: int
    streams: Streams = ((0, 0),)

    def __post_init__(self) -> None:
        self._settle()  # refuses pixels that the noise does not take
        self._name = object()
        self._sources = {
            stream: BlockSource(stream_key(self.seed, self.image), self.pixels.device, stream)
            for _, stream in self.streams
        }

    def sample(self, out: Tensor, start: int) -> None:
        """Write the noisy images of the samples start, start + 1, ... into the rows of `out`."""
        settled = self._settled()
        for stream, begin, end in _spans(self.streams, start, start + len(out)):
            for block, first, last, row in _pieces(begin, end - begin):
                # The piece begins with sample begin + row, whose place in `out` is its distance from `start`.
                at = begin - start + row
                self.noise.apply(out[at : at + last - first], settled, self.block(block, stream)[first:last])

    def _settle(self) -> Tensor:
        return self.noise.settle(floats(self.pixels))

    def _settled(self) -> Tensor:
        """What the noise perturbs; it takes several times the memory of bytes, so it is not held by every image."""
        if (kept := KEPT.take(self._name)) is None:
            kept = self._settle()
        KEPT.put(self._name, kept)
        return kept

    def block(self, number: int, stream: int = 0) -> Tensor:
        """The noise of the samples BLOCK * number, ..., BLOCK * number + BLOCK - 1 in one of the streams."""
        shape, source = tuple(self.pixels.shape), self._sources[stream]
        name = (self.noise, source, shape, number)
        if (kept := KEPT.take(name)) is None:
            kept = self.noise.draw(source, number, shape)
        KEPT.put(name, kept)
        return kept


@dataclass(frozen=True)
class BlockSource:
    """The random numbers of one image, block by block: the `Source` that noises draw from."""

    key: bytes
    device: torch.device
    stream: int = 0

    def normal(self, block: int, shape: tuple[int, ...]) -> Tensor:
        """From torch's own generator of the device."""
        generator = torch.Generator(self.device).manual_seed(block_seed(self.key, block, self.stream))
        return torch.randn((BLOCK, *shape), generator=generator, device=self.device, dtype=torch.float32)

    def integers(self, block: int, shape: tuple[int, ...], attempt: int = 0) -> Integers:
        """From Philox, whose raw stream numpy promises to keep: the same on every CPU, and with a key of 128 bits.

        They are drawn on the CPU whatever the device is, so that a replay elsewhere gives the same noise.
        """
        key = int.from_bytes(self.key[:16], "big")
        generator = np.random.Philox(counter=[0, block, attempt, self.stream], key=key)
        raw = generator.random_raw(BLOCK * math.prod(shape)) >> np.uint64(64 - BITS)
        return raw.astype(np.int64).reshape(BLOCK, *shape)

    def place(self, values: npt.NDArray[Any]) -> Tensor:
        return placed(torch.from_numpy(values), self.device)


class Kept:
    """The blocks, and pixels, that were used last: two draws of an image in a row often share one."""

    def __init__(self, most_bytes: int) -> None:
        self.bytes, self._most = 0, most_bytes
        self._blocks: dict[Hashable, Tensor] = {}  # the one used longest ago first
        self._lock = threading.Lock()

    def take(self, name: Hashable) -> Tensor | None:
        """Remove a block and return it; None where it is not kept."""
        with self._lock:
            return self._remove(name)

    def put(self, name: Hashable, block: Tensor) -> None:
        """Keep a block, and remove the oldest ones while all together are too many bytes."""
        with self._lock:
            self._remove(name)  # another engine may have drawn the same block
            self._blocks[name] = block
            self.bytes += block.nbytes
            while self.bytes > self._most:
                self._remove(next(iter(self._blocks)))

    def _remove(self, name: Hashable) -> Tensor | None:
        block = self._blocks.pop(name, None)
        if block is not None:
            self.bytes -= block.nbytes
        return block


KEPT = Kept(KEPT_BYTES)


def _spans(streams: Streams, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """(stream, begin, end): which samples of start, ..., stop - 1 belong to which stream."""
    # A stream ends where the next one begins. Each is cut to the samples start, ..., stop - 1.
    ends = [*(begin for begin, _ in streams[1:]), stop]
    for (begin, stream), end in zip(streams, ends, strict=True):
        first, last = max(begin, start), min(end, stop)
        if first < last:
            yield stream, first, last


def _pieces(start: int, count: int) -> Iterator[tuple[int, int, int, int]]:
    """(block, first, last, row): the rows first..last of each block that make up `count` samples from `start` on."""
    # `row` counts the samples handed out so far. The next one is row `first` of its block, and the piece goes on to the
    # end of the block or of the samples, whichever comes first.
    row = 0
    while row < count:
        block, first = divmod(start + row, BLOCK)
        last = min(BLOCK, first + count - row)
        yield block, first, last, row
        row += last - first


def require_seed(seed: str) -> None:
    """Raise StreamError for a seed that is not 1 to 256 printable ASCII characters."""
    if not (isinstance(seed, str) and seed.isascii() and seed.isprintable() and 0 < len(seed) <= 256):
        raise StreamError(f"a seed must be 1 to 256 printable ASCII characters, got {shown(seed)}")


def stream_key(seed: str, image: int) -> bytes:
    """A hash of (seed, image)."""
    require_seed(seed)
    if isinstance(image, bool) or not isinstance(image, int) or image < 0:
        raise StreamError(f"the index of an image must be a whole number from 0 on, got {image!r}")
    return hashlib.blake2b(f"{image}/{seed}".encode(), digest_size=32).digest()


def block_seed(key: bytes, block: int, stream: int = 0) -> int:
    """64 bits; the low 32, all that torch's CPU generator keeps, differ for all blocks and streams of one image.

    A plain 32-bit hash would give two of 4,000 blocks the same noise for one image in 500. So the block's number goes
    through a permutation (four Feistel rounds) that is keyed by the hash of (seed, image).
    """
    number = (stream << STREAM_SHIFT | block) & 0xFFFFFFFF
    # A Feistel round swaps the halves and mixes one into the other. It can be undone, so different numbers stay
    # different.
    left, right = divmod(number, 1 << 16)
    for round_ in range(4):
        text = bytes([round_]) + right.to_bytes(2, "big")
        mixed = hashlib.blake2b(text, key=key, digest_size=2).digest()
        left, right = right, left ^ int.from_bytes(mixed, "big")
    high = int.from_bytes(key[:4], "big") >> 1  # manual_seed takes 63 bits without wrapping
    return high << 32 | left << 16 | right
