"""Floating-point noise reveals the image, and noise on the grid does not (Voráček and Hein, 2023)."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
import torch
from scipy.special import ndtr, ndtri
from torch import Tensor, nn

from smoothcert.bounds import lower_bound
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import assemble
from smoothcert.engine.sampling import BlockSource, NoisyImage, stream_key
from smoothcert.errors import OffGridError
from smoothcert.noise import Gaussian, Noise, RoundedGaussian, Uniform
from smoothcert.noise.rounded_gaussian import table
from smoothcert.noise.uniform import law
from smoothcert.procedures import Fixed
from smoothcert.question import Question
from smoothcert.verification import verify

SHAPE = (3, 8, 8)
SIGMA = 0.25
MOVED = 64
"""The number of values that the attack moves by 1/255, a distance of sqrt(64) / 255 = .031."""


class Spy(nn.Module):
    """A network that gives class 0 if every value can be 64/255 + e for some float32 number e, and class 1 otherwise.

    It tries e = z - x and its two neighbours on either side, and so reads where the image was from the last bits.
    """

    def forward(self, z: Tensor) -> Tensor:
        x = torch.tensor(64, dtype=torch.float32) / 255
        noise = z.contiguous() - x
        bits = noise.view(torch.int32)
        reachable = torch.zeros_like(z, dtype=torch.bool)
        for step in (-2, -1, 0, 1, 2):
            reachable |= x + (bits + step).view(torch.float32) == z
        stays = reachable.flatten(1).all(1).float()
        return torch.stack([stays, 1 - stays], dim=1)


def image(moved: int) -> Tensor:
    flat = torch.full((math.prod(SHAPE),), 64, dtype=torch.uint8)
    flat[:moved] = 63
    return flat.view(SHAPE)


def counts(noise: Noise, moved: int, n: int = 400) -> list[int]:
    ensemble = assemble([Spy()], classes=("stays", "moves"), input_shape=SHAPE, optimise=False)
    with Engine(ensemble) as engine:
        (certificate,) = certify(engine, image(moved)[None], Question(noise, Fixed(n=n)), seed="soundness")
    assert verify(certificate)
    return certificate.stages[0].counts.array(range(2)).tolist()


def promised_and_seen(noise: Noise) -> tuple[float, float]:
    """For the class that wins at x: the least share that the certificate promises at x', and the share seen there."""
    here, there = counts(noise, 0), counts(noise, MOVED)
    winner = here.index(max(here))
    p_lower = lower_bound(here[winner], 400, 0.001)
    return float(ndtr(ndtri(p_lower) - math.sqrt(MOVED) / 255 / SIGMA)), there[winner] / 400


def test_plain_noise_gives_a_network_away() -> None:
    # This documents why the other noise exists, and fails if torch's arithmetic ever changes. It is also the mutant of
    # the next test: a noise that leaks breaks the promise.
    promised, seen = promised_and_seen(Gaussian(SIGMA))
    assert promised > 0.9
    assert seen < 0.5


def test_exact_noise_keeps_the_promise_for_the_same_network() -> None:
    promised, seen = promised_and_seen(RoundedGaussian(SIGMA))
    assert promised > 0.9
    assert seen >= promised


@pytest.mark.parametrize("sigma", [0.25, 0.12])
def test_a_noisy_value_depends_on_the_sum_alone(sigma: float) -> None:
    # This is exhaustive: every byte with every N. The mutant adds floats, and gives several values to most sums.
    noise, tail = RoundedGaussian(sigma), table(sigma).tail
    a = torch.arange(256, dtype=torch.float32).div(255).view(1, 16, 16)
    settled = noise.settle(a)
    drawn = torch.arange(-tail, tail + 1, dtype=torch.int16)
    out = torch.empty(len(drawn), 1, 16, 16)
    noise.apply(out, settled.expand_as(out), drawn.view(-1, 1, 1, 1).expand_as(out))
    sums = (torch.arange(256).view(1, -1) + drawn.long().view(-1, 1)).clamp(255 - tail, tail)
    assert torch.equal(out.flatten(1), (sums.double() / 255).float())
    added = a.flatten() + drawn.view(-1, 1).float() / 255
    seen = {(int(s), float(v)) for s, v in zip(sums.flatten().tolist(), added.flatten().tolist(), strict=True)}
    assert len(seen) > 1.5 * len({s for s, _ in seen})


THRESHOLDS = {
    0.25: ("7bc2543f3a41fd9c17d0f3eda576b04487e32809a8c8808f5bc3050ac6b4561b", 510, 2291413380394810866),
    0.5: ("fe9498a2c735081cbf4b7c3d07f283612215786b3e3c4a524851ac5935c6eb0c", 1020, 2298628139327088525),
    1.0: ("9d64d943b7afa017eced3a7956098067908c5df9f4a26be1d138da3382309dc1", 2040, 2302235567335685765),
    0.12: ("8b7a9cd4f5ed3835a8ef02d489febe076fdfd85c394b3ef7faf5e3e43c72a178", 510, 2275782311964042985),
}


@pytest.mark.parametrize("sigma", THRESHOLDS)
def test_the_table_of_thresholds_is_exact(sigma: float) -> None:
    digest, tail, below = THRESHOLDS[sigma]
    found = table(sigma)
    assert found.tail == tail
    assert hashlib.sha256(found.thresholds.astype("<i8").tobytes()).hexdigest() == digest
    assert found.thresholds[tail - 1] == below
    assert np.all(np.diff(found.thresholds) >= 0)


def law_of(sigma: float) -> np.ndarray:
    bounds = np.concatenate([[0], table(sigma).thresholds, [1 << 62]])
    return np.diff(bounds.astype(object)).astype(float) / 2.0**62


def test_the_law_has_the_right_mass_and_spread() -> None:
    p, tail = law_of(0.25), table(0.25).tail
    assert p[tail] == pytest.approx(0.0062578539654369942, rel=1e-12)
    assert p[tail + 64] == pytest.approx(0.0037807348075313826, rel=1e-12)
    n = np.arange(-tail, tail + 1)
    assert math.sqrt((p * n * n).sum()) / 255 == pytest.approx(0.25000256310360132, rel=1e-9)


def test_the_quick_look_up_is_the_bisection() -> None:
    u = np.random.default_rng(5).integers(0, 1 << 62, size=300_000)
    found = table(0.25)
    edges = np.concatenate([found.thresholds, found.thresholds - 1])
    for values in (u, edges):
        slow = np.searchsorted(found.thresholds, values, side="right") - found.tail
        assert np.array_equal(found.integers(values), slow)


def test_drawn_noise_has_the_law_of_the_table() -> None:
    source = BlockSource(stream_key("law", 0), torch.device("cpu"))
    drawn = np.concatenate([RoundedGaussian(0.25).draw(source, b, (3, 32, 32)).numpy().ravel() for b in range(11)])
    p, tail = law_of(0.25), table(0.25).tail
    wide = np.add.reduceat(p, np.arange(0, len(p), 20))  # cells of 20 values all have a fair size
    seen = np.add.reduceat(np.bincount(drawn + tail, minlength=len(p)), np.arange(0, len(p), 20))
    large = wide * len(drawn) > 20
    chi = ((seen - wide * len(drawn)) ** 2 / (wide * len(drawn)))[large].sum()
    assert chi < large.sum() + 5 * math.sqrt(2 * large.sum())


@pytest.mark.parametrize("reach", [1.0, 0.25, 0.5, 0.433, 2.0, 0.004, 3.464, 0.1])
def test_the_uniform_die_has_exactly_the_rounded_law(reach: float) -> None:
    from fractions import Fraction

    exact, die = 255 * Fraction(str(reach)), law(reach)
    seen = np.bincount(die.integers(np.arange(die.sides)).astype(int) + die.most, minlength=2 * die.most + 1)
    for n in range(-die.most, die.most + 1):
        # P(round(w U) = n) is the part of [-w, w] within half a step of n.
        low, high = max(Fraction(2 * n - 1, 2), -exact), min(Fraction(2 * n + 1, 2), exact)
        assert Fraction(int(seen[n + die.most]), die.sides) == (high - low) / (2 * exact)


def test_the_bound_holds_for_the_sharpest_test() -> None:
    # The theorem is tight for the classifier F = [sum of all values above a cut].
    shape, n, step = (3, 16, 16), 20_000, 1 / 255
    x = torch.full(shape, 100, dtype=torch.float32) / 255
    moved = torch.full(shape, 99, dtype=torch.float32) / 255
    d = math.prod(shape)
    cut = float(x.double().sum()) - 2.326 * SIGMA * math.sqrt(d)

    def share(start: Tensor, seed: str) -> float:
        out, above = torch.empty(500, *shape), 0
        noisy = NoisyImage(RoundedGaussian(SIGMA), start, seed, 0)
        for at in range(0, n, 500):
            noisy.sample(out, at)
            above += int((out.double().sum((1, 2, 3)) > cut).sum())
        return above / n

    p, q = share(x, "here"), share(moved, "there")
    bound = ndtr(ndtri(p) - step * math.sqrt(d) / SIGMA)
    assert bound - 0.012 < q < bound + 0.012
    # The mutant's noise is too small by 10 % and falls below the bound.
    small = ndtr((ndtri(p) * SIGMA * math.sqrt(d) - step * d) / (0.9 * SIGMA * math.sqrt(d)))
    assert p == pytest.approx(0.99, abs=0.005)
    assert abs(small - bound) > 0.005


def test_an_image_off_the_grid_is_refused_by_its_first_place() -> None:
    pixels = torch.zeros(SHAPE)
    pixels[1, 2, 3] = 0.5
    for noise in (RoundedGaussian(SIGMA), Uniform(1.0)):
        with pytest.raises(OffGridError, match=r"values k/255.*got 0\.5 at \[1, 2, 3\]"):
            noise.settle(pixels)


def test_every_byte_is_on_the_grid() -> None:
    a = torch.arange(256, dtype=torch.uint8)
    settled = Uniform(1.0).settle((a.float() / 255).view(1, 16, 16))
    assert torch.equal(settled.flatten(), a.short() + 255)


GOLDEN = [1318461392268040612, 2780324876190176459, 223350019619656872, 1309441249264621421]
GOLDEN += [1158725556102000064, 1903101262130951785, 4283400406080381421, 1671663484671649026]


def test_the_integer_stream_is_the_same_on_every_machine() -> None:
    key = stream_key("golden", 0)
    assert key[:16].hex() == "70c7da38f6f0398e416fa8e361da4c9d"
    source = BlockSource(key, torch.device("cpu"))
    first = source.integers(0, (3, 32, 32))
    assert first.ravel()[:8].tolist() == GOLDEN
    digest = "ad3f3ec3b10640730d11eb50c7269658a007b3189e16e6aac8afcf715bad193b"
    assert hashlib.sha256(first.astype("<i8").tobytes()).hexdigest() == digest
    assert source.integers(1, (3, 32, 32)).ravel()[:2].tolist() == [2187776099239476595, 4400522743809685507]
    other = BlockSource(stream_key("golden", 1), torch.device("cpu")).integers(0, (3, 32, 32))
    assert other.ravel()[:2].tolist() == [2322798342768121702, 1550197412929136616]
    assert source.integers(0, (3, 32, 32), attempt=1).ravel()[0] != GOLDEN[0]


@pytest.mark.parametrize(
    ("noise", "drawn"),
    [
        (RoundedGaussian(0.25), [-36, 17, -106, -36, -43, -14, 94, -22]),
        (RoundedGaussian(0.5), [-72, 33, -212, -73, -85, -28, 187, -45]),
        (Uniform(1.0), [-169, 165, 171, 66, 47, -122, -74, -42]),
    ],
)
def test_the_mapped_noise_is_the_same_on_every_machine(noise: Noise, drawn: list[int]) -> None:
    source = BlockSource(stream_key("golden", 0), torch.device("cpu"))
    assert noise.draw(source, 0, (3, 32, 32)).ravel()[:8].tolist() == drawn
