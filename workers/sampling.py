"""Noise that is a pure function of (seed, image, sample).

Noise is drawn in whole blocks; the generator of a block is seeded by hashing. So sample i is the same for every batch
size, packing, worker and restart, on one kind of device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

BLOCK = 32
SCHEME = "torch-normal-32"
"""Names how noise follows from a seed: torch's normal generator of the device, in blocks of 32 samples."""


@dataclass
class NoiseStream:
    """The noise of one image: standard normal, one row of `shape` for each sample."""

    seed: str
    image: int
    shape: tuple[int, ...]
    device: torch.device
    _last: tuple[int, Tensor] | None = field(default=None, repr=False)

    def perturb(self, out: Tensor, pixels: Tensor, sigma: float, start: int) -> None:
        """Write pixels + sigma * noise of the samples start, start + 1, ... into the rows of `out`."""
        for block, first, last, row in _pieces(start, len(out)):
            noise = self.block(block)[first:last]
            torch.add(pixels, noise, alpha=sigma, out=out[row : row + last - first])

    def block(self, number: int) -> Tensor:
        """The noise of the samples BLOCK * number, ..., BLOCK * number + BLOCK - 1."""
        if self._last is None or self._last[0] != number:
            generator = torch.Generator(self.device).manual_seed(block_seed(self.seed, self.image, number))
            drawn = torch.randn((BLOCK, *self.shape), generator=generator, device=self.device)
            self._last = (number, drawn)  # two draws in a row often share a block
        return self._last[1]


def _pieces(start: int, count: int) -> Iterator[tuple[int, int, int, int]]:
    """(block, first, last, row): the rows first..last of each block that make up `count` samples from `start` on."""
    row = 0
    while row < count:
        block, first = divmod(start + row, BLOCK)
        last = min(BLOCK, first + count - row)
        yield block, first, last, row
        row += last - first


def block_seed(seed: str, image: int, block: int) -> int:
    """64 bits; the low 32, all that torch's CPU generator keeps, differ for all blocks of one image.

    A plain 32-bit hash would give two of 4,000 blocks the same noise for one image in 500. So the block's number goes
    through a permutation (four Feistel rounds) that is keyed by a hash of (seed, image).
    """
    key = hashlib.blake2b(f"{seed}/{image}".encode(), digest_size=32).digest()
    left, right = divmod(block & 0xFFFFFFFF, 1 << 16)
    for round_ in range(4):
        said = bytes([round_]) + right.to_bytes(2, "big")
        mixed = hashlib.blake2b(said, key=key, digest_size=2).digest()
        left, right = right, left ^ int.from_bytes(mixed, "big")
    high = int.from_bytes(key[:4], "big") >> 1  # manual_seed takes 63 bits without wrapping
    return high << 32 | left << 16 | right
