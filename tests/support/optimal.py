"""Boundaries with a price, and their golden numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from smoothcert.boundaries import Boundaries
from smoothcert.noise import Gaussian
from smoothcert.procedures import Optimal

NOISE = Gaussian(1.0)
ALPHA = 0.001


def sha256(numbers: Iterable[int]) -> str:
    return hashlib.sha256(",".join(map(str, numbers)).encode()).hexdigest()


def make(ratio: float, *, alpha: float = ALPHA, **parameters: int) -> Boundaries:
    return Optimal(**parameters).boundaries(NOISE, ratio, alpha=alpha, beta=0.5)


def ever(rule: Boundaries, p: float) -> float:
    """f(p): the chance that the count of a class of probability p ever reaches U if nothing is abandoned."""
    return Boundaries(rule.looks, rule.certify, np.full(len(rule.looks), -1)).outcome(p).certify


@dataclass(frozen=True)
class Golden:
    ratio: float
    alpha: float
    parameters: dict[str, int]
    rows: list[tuple[int, int, int]]
    certify: str
    abandon: str
    spent: float
    bound: float
    worth: float


GOLDEN = [
    Golden(
        1.0,
        ALPHA,
        {},
        [
            *[(32, 33, 17), (64, 64, 41), (96, 93, 66), (128, 122, 91), (160, 152, 117)],
            *[(107_072, 90_575, 90_346), (117_792, 99_619, 99_422), (131_100, 110_748, -1)],
        ],
        "53f377db157306042cc714712264c6b3d49a11efed54d9655316e5921be6df1a",
        "899362794f4ede18520b0157b7c8b0dcc1f6cf9ca80bd67f5c39d1c18e12409f",
        0.000997712751341,
        0.000997712751341,
        192_349.709,
    ),
    Golden(
        2.0,
        ALPHA,
        {},
        [
            *[(32, 33, 26), (64, 65, 56), (96, 97, 87), (128, 129, 117)],
            *[(117_792, 115_318, 115_242), (131_100, 128_299, -1)],
        ],
        "b42d8e6ae8ce295a27abde059ff0c884d3f944205e6970953b6a35b9d766c1d7",
        "979a294fcb5a7ef96cdb76d5006c9921062981404df1ebb1b767f63cb6a54ff3",
        0.000992017493464,
        0.000992017493464,
        69_050.3001,
    ),
    Golden(
        3.0,
        ALPHA,
        {},
        [(32, 33, 30), (64, 65, 61), (96, 97, 93), (117_792, 117_681, 117_665), (131_100, 130_967, -1)],
        "09d7e3e7f70dcce0b7f4b1f97e734c4c2481c13f96a97863ef6edf815b8dac75",
        "229a03b43cca6c255b76d0a67402dd6292940475b19c8f6383d695ac5d367222",
        0.000932091368732,
        0.000932091368732,
        14_341.9557,
    ),
    Golden(
        0.1,
        ALPHA,
        {},
        [(32, 28, 6), (64, 50, 19), (96, 71, 33), (117_792, 64_298, 64_024), (131_100, 71_386, -1)],
        "b127d94857d7fefb0b31593a4f5f34393cf87b2812ff06b807d158467a082de0",
        "8985999e64d7a5f4d8e6b6eab6cc95d55152e3ec298810a123a10c61d410ad6a",
        0.000970672965157,
        0.000994171564612,
        352_694.314,
    ),
    Golden(
        0.0,
        ALPHA,
        {},
        [(32, 27, 5), (64, 49, 17), (96, 68, 30), (117_792, 59_637, 59_363), (131_100, 66_199, -1)],
        "e905a098ed974014e988d5b9acc3d9f561b88df6f6abba2d613c8fcf3fcb519a",
        "707756920064e7cd9f2e8207cf2cea8e0468e98889d1f3b20c1593ed5c80e1ff",
        0.000498803207047,
        0.000997606414095,
        371_590.238,
    ),
    Golden(
        2.0,
        1e-4,
        {"price": 3_000_000, "max_samples": 1_000_000, "n0": 100},
        [(32, 33, 25), (64, 65, 55), (96, 97, 85), (960_128, 938_961, 938_789), (1_000_000, 977_842, -1)],
        "a4b382f55653d7ef569216712dfb0eca16d298d05170f1a79ac6f74cfcba6565",
        "f9ea781822e3eee4590d0a5126d9c757c18e62e8568603e50c1c88ebd14f66ee",
        9.96408018945e-05,
        9.96408018945e-05,
        282_543.989,
    ),
    Golden(
        0.5,
        0.05,
        {"price": 20_000, "max_samples": 5_000, "n0": 100},
        [(32, 29, 15), (64, 53, 35), (96, 78, 56), (4_480, 3_186, 3_138), (5_000, 3_524, -1)],
        "b4cfbc2ad9e012d06c8842041024af9dd14a2d68cf7a48b7ecb71d3374a8e338",
        "60c17eb9fbd4800eecad4d839e2b3c56488207b934b3472d89bb9e59413e208b",
        0.0495372201158,
        0.0495372201158,
        7_162.82677,
    ),
]
