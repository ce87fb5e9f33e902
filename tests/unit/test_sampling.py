"""Noise is a pure function of (seed, image, sample), whichever component asks for it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from smoothcert.engine.sampling import BLOCK, BlockSource, Kept, NoisyImage, block_seed, stream_key
from smoothcert.noise import Gaussian, RoundedGaussian, Uniform

SHAPE = (3, 4, 4)
UNIT = Gaussian(1.0)


def stream(seed: str = "a", image: int = 0) -> NoisyImage:
    """The noise of a black image, whose noisy copies are the noise itself."""
    return NoisyImage(UNIT, torch.zeros(SHAPE), seed, image)


def rows(noisy: NoisyImage, start: int, count: int) -> torch.Tensor:
    out = torch.empty((count, *SHAPE))
    noisy.sample(out, start)
    return out


@settings(max_examples=50)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=6))
def test_the_noise_of_a_sample_does_not_depend_on_how_it_is_asked_for(counts: list[int]) -> None:
    whole = rows(stream(), 0, sum(counts))
    pieces, noise, start = [], stream(), 0
    for count in counts:
        pieces.append(rows(noise, start, count))
        start += count
    assert torch.equal(torch.cat(pieces), whole)
    assert torch.equal(rows(stream(), start - 1, 1)[0], whole[-1])


@pytest.mark.parametrize("size", [32, 128, 256])
def test_noise_is_the_same_in_every_batch_shape(size: int) -> None:
    whole = rows(stream(), 0, 1024)
    batches = [rows(stream(), start, size) for start in range(0, 1024, size)]
    assert torch.equal(torch.cat(batches), whole)


def test_pixels_are_moved_by_sigma_times_the_noise() -> None:
    pixels, out = torch.rand(SHAPE), torch.empty((40, *SHAPE))
    NoisyImage(Gaussian(0.25), pixels, "a", 0).sample(out, 7)
    assert torch.allclose(out, pixels + 0.25 * rows(stream(), 7, 40), atol=1e-6)
    assert out.min() < 0, "noise is added without clipping"


def test_seeds_images_and_blocks_have_noise_of_their_own() -> None:
    drawn = [rows(stream(seed, image), 0, BLOCK) for seed in ("a", "b") for image in (0, 1)]
    drawn.append(rows(stream(), BLOCK, BLOCK))
    assert all(not torch.equal(a, b) for i, a in enumerate(drawn) for b in drawn[:i])


def test_the_blocks_of_an_image_differ_in_the_32_bits_that_torch_keeps() -> None:
    """Mutant killed: a plain 32-bit hash, which repeats among 100,000 blocks (about one pair is expected)."""
    key = stream_key("seed", 3)
    seeds = {block_seed(key, block) & 0xFFFFFFFF for block in range(100_000)}
    assert len(seeds) == 100_000
    assert torch.equal(
        torch.randn(4, generator=torch.Generator().manual_seed(5)),
        torch.randn(4, generator=torch.Generator().manual_seed(5 + (1 << 32))),
    ), "torch keeps more than 32 bits now: the permutation could go"


def test_a_seed_fits_what_torch_takes() -> None:
    assert all(0 <= block_seed(stream_key(f"{i}", i), i) < 2**63 for i in range(1000))


def test_seed_and_image_cannot_be_mistaken_for_another_pair() -> None:
    pairs = [("a/1", 2), ("a", 1), ("2/a", 1), ("1/a", 2), ("a", 12), ("2/a", 11)]
    assert len({stream_key(seed, image) for seed, image in pairs}) == len(pairs)


def test_blocks_are_kept_but_not_of_all_images(monkeypatch: pytest.MonkeyPatch) -> None:
    size = NoisyImage(UNIT, torch.zeros(3, 64, 64), "a", 0).block(0).nbytes
    kept = Kept(3 * size)
    monkeypatch.setattr("smoothcert.engine.sampling.KEPT", kept)
    streams = [NoisyImage(UNIT, torch.zeros(3, 64, 64), "a", image) for image in range(5)]
    first = [each.block(1) for each in streams]
    assert kept.bytes == 3 * size
    assert [each.block(1) is before for each, before in zip(streams[2:], first[2:], strict=True)] == [True] * 3
    again = streams[0].block(1)
    assert again is not first[0]
    assert torch.equal(again, first[0])
    assert kept.bytes == 3 * size
    for _ in range(9):  # two engines draw the same at once
        kept.put("the same", again)
    assert kept.bytes == 3 * size
    assert kept.take("the same") is again
    assert kept.bytes == 2 * size


def test_noises_of_one_seed_do_not_share_their_blocks() -> None:
    """Mutant killed: a block is kept under its seed alone."""
    noises = (Gaussian(0.25), RoundedGaussian(0.25), Uniform(0.25), Uniform(0.5))
    kept = [NoisyImage(noise, torch.zeros(SHAPE), "a", 0).block(3) for noise in noises]
    source = BlockSource(stream_key("a", 0), torch.device("cpu"))
    for noise, block in zip(noises, kept, strict=True):
        assert torch.equal(block, noise.draw(source, 3, SHAPE))
    assert all(not torch.equal(a.double(), b.double()) for i, a in enumerate(kept) for b in kept[:i])


def test_the_noise_is_standard_normal_and_independent_between_blocks() -> None:
    values = rows(stream(), 0, 64 * BLOCK).numpy()
    assert stats.kstest(values.ravel(), "norm").pvalue > 1e-4
    blocks = values.reshape(64, -1)
    correlations = np.corrcoef(blocks)[np.triu_indices(64, 1)]
    assert np.abs(correlations).max() < 6 / np.sqrt(blocks.shape[1])
