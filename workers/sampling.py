"""Noise that is a pure function of (seed, image, sample).

Noise is drawn in whole blocks; the generator of a block is seeded by hashing. So sample i is the same for every batch
size, packing, worker and restart, wherever torch's generator is the same: on one kind of device and, on the CPU, one
kind of vector instructions.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.errors import StreamError

BLOCK = 32
KEPT_BYTES = 1 << 26
"""Of the blocks that are kept, of all images together: those of thousands of live ones would fill a device."""
SCHEME = "torch-normal-32"
"""Names how noise follows from a seed: torch's normal generator of the device, in blocks of 32 samples."""


@dataclass
class NoiseStream:
    """The noise of one image: standard normal, one row of `shape` for each sample."""

    seed: str
    image: int
    shape: tuple[int, ...]
    device: torch.device

    def __post_init__(self) -> None:
        self._key = stream_key(self.seed, self.image)

    def perturb(self, out: Tensor, pixels: Tensor, sigma: float, start: int) -> None:
        """Write pixels + sigma * noise of the samples start, start + 1, ... into the rows of `out`."""
        for block, first, last, row in _pieces(start, len(out)):
            noise = self.block(block)[first:last]
            torch.add(pixels, noise, alpha=sigma, out=out[row : row + last - first])

    def block(self, number: int) -> Tensor:
        """The noise of the samples BLOCK * number, ..., BLOCK * number + BLOCK - 1."""
        name = (self._key, self.shape, self.device, number)
        if (kept := KEPT.take(name)) is None:
            generator = torch.Generator(self.device).manual_seed(block_seed(self._key, number))
            kept = torch.randn((BLOCK, *self.shape), generator=generator, device=self.device, dtype=torch.float32)
        KEPT.put(name, kept)
        return kept


class Kept:
    """The blocks that were used last: two draws of an image in a row often share one."""

    def __init__(self, most_bytes: int) -> None:
        self.bytes, self._most = 0, most_bytes
        self._blocks: dict[Hashable, Tensor] = {}  # the one used longest ago first
        self._lock = threading.Lock()

    def take(self, name: Hashable) -> Tensor | None:
        """The block, which is no longer kept."""
        with self._lock:
            return self._let_go(name)

    def put(self, name: Hashable, block: Tensor) -> None:
        """Keep it, and let go of others where all together are too many."""
        with self._lock:
            self._let_go(name)  # another engine may have drawn the same
            self._blocks[name] = block
            self.bytes += block.nbytes
            while self.bytes > self._most:
                self._let_go(next(iter(self._blocks)))

    def _let_go(self, name: Hashable) -> Tensor | None:
        block = self._blocks.pop(name, None)
        if block is not None:
            self.bytes -= block.nbytes
        return block


KEPT = Kept(KEPT_BYTES)


def _pieces(start: int, count: int) -> Iterator[tuple[int, int, int, int]]:
    """(block, first, last, row): the rows first..last of each block that make up `count` samples from `start` on."""
    row = 0
    while row < count:
        block, first = divmod(start + row, BLOCK)
        last = min(BLOCK, first + count - row)
        yield block, first, last, row
        row += last - first


def stream_key(seed: str, image: int) -> bytes:
    """A hash of (seed, image), for a seed of printable ASCII and an image >= 0."""
    if not (isinstance(seed, str) and seed.isascii() and seed.isprintable() and 0 < len(seed) <= 256):
        raise StreamError(f"a seed must be 1 to 256 printable ASCII characters, got {seed!r}")
    if isinstance(image, bool) or not isinstance(image, int) or image < 0:
        raise StreamError(f"the index of an image must be a whole number from 0 on, got {image!r}")
    return hashlib.blake2b(f"{image}/{seed}".encode(), digest_size=32).digest()


def block_seed(key: bytes, block: int) -> int:
    """64 bits; the low 32, all that torch's CPU generator keeps, differ for all blocks of one image.

    A plain 32-bit hash would give two of 4,000 blocks the same noise for one image in 500. So the block's number goes
    through a permutation (four Feistel rounds) that is keyed by the hash of (seed, image).
    """
    left, right = divmod(block & 0xFFFFFFFF, 1 << 16)
    for round_ in range(4):
        said = bytes([round_]) + right.to_bytes(2, "big")
        mixed = hashlib.blake2b(said, key=key, digest_size=2).digest()
        left, right = right, left ^ int.from_bytes(mixed, "big")
    high = int.from_bytes(key[:4], "big") >> 1  # manual_seed takes 63 bits without wrapping
    return high << 32 | left << 16 | right
