"""Average certified radius and samples of the procedure `largest`, computed exactly on published logs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.paper.samples_logs import (
    ALPHA,
    BETA,
    HELD_OUT,
    METHODS,
    SIGMAS,
    Population,
    add_options,
    each_of,
    geometric_mean,
)
from benchmarks.result import Figure, Result
from smoothcert.boundaries import Outcome
from smoothcert.largest import Thresholds, least_proving_count
from smoothcert.noise import Gaussian
from smoothcert.plan import plan
from smoothcert.procedures import Fixed, Largest

CHEAP = {0.25: 1_200_000, 0.5: 650_000, 1.0: 500_000}
"""Prices by sigma that keep 97 % of the average certified radius."""


@dataclass(frozen=True)
class RadiusKept:
    """The average certified radius and the samples of one price on the images of one log, by those of Certify."""

    setting: str
    held_out: bool
    price: int
    default: bool
    samples: float
    acr: float
    certify_acr: float

    @property
    def gain(self) -> float:
        return (Fixed().n0 + Fixed().n) / self.samples

    @property
    def share(self) -> float:
        """The share of Certify's average certified radius, in percent."""
        return 100 * self.acr / self.certify_acr


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser)


def run(options: argparse.Namespace) -> Result:
    found = each_of(kept_at, [(options.logs, sigma) for sigma in SIGMAS], jobs=options.jobs)
    return report([each for several in found for each in several])


def kept_at(logs: Path, sigma: float) -> list[RadiusKept]:
    """All logs of one sigma in one process: they have many p_A in common, which are evaluated once."""
    return [
        kept_of(Population.read(logs, method, sigma), method, sigma, price)
        for price in (Largest().price, CHEAP[sigma])
        for method in METHODS
    ]


def kept_of(population: Population, method: str, sigma: float, price: int) -> RadiusKept:
    return RadiusKept(
        setting=f"{method} σ={sigma:g}",
        held_out=method in HELD_OUT,
        price=price,
        default=price == Largest().price,
        samples=population.mean(lambda p: expected(sigma, price, p).samples),
        acr=population.mean_of_correct(lambda p: expected(sigma, price, p).radius or 0.0),
        certify_acr=population.mean_of_correct(lambda p: certified_radius(sigma, p)),
    )


@cache
def expected(sigma: float, price: int, p: float) -> Outcome:
    return plan(Largest(price=price), Gaussian(sigma), 0.0, alpha=ALPHA, beta=BETA).expected(p)


@cache
def certified_radius(sigma: float, p: float) -> float:
    """The expected radius of Certify."""
    return certify(Gaussian(sigma)).outcome(p).radius or 0.0


@cache
def certify(noise: Gaussian) -> Thresholds:
    """Certify as a run with one look, which every count ends."""
    n = Fixed().n
    least = least_proving_count(n, ALPHA)
    one, proving = np.array([n]), np.array([least])
    return Thresholds(one, proving, np.array([-1]), ends=one, proving=proving, needed=proving, noise=noise, alpha=ALPHA)


def report(found: list[RadiusKept]) -> Result:
    columns = ("setting", "price", "samples", "x Certify", "ACR", "ACR of Certify", "kept %")
    rows = [
        (
            each.setting,
            each.price,
            round(each.samples),
            round(each.gain, 2),
            round(each.acr, 4),
            round(each.certify_acr, 4),
            round(each.share, 2),
        )
        for each in found
    ]
    figures = []
    for default, gain, share in ((True, 1.9, 99.3), (False, 3.8, 97.0)):
        some = [each for each in found if each.default is default]
        held_out = [each for each in some if each.held_out]
        words = "default price" if default else "price by sigma"
        figures += [
            Figure(f"{words}, times fewer samples than Certify", geometric_mean(s.gain for s in some), at_least=gain),
            Figure(f"{words}, the same, held-out methods", geometric_mean(s.gain for s in held_out), at_least=gain),
            Figure(f"{words}, mean share of ACR kept, percent", sum(s.share for s in some) / len(some), at_least=share),
            Figure(f"{words}, least share of ACR kept, percent", min(s.share for s in some), at_least=share),
            Figure(f"{words}, the same, held-out methods", min(s.share for s in held_out)),
        ]
    return Result(
        name="largest",
        compares="exact ACR and mean samples per image of `largest`, against Certify (100,100 samples)",
        columns=columns,
        rows=rows,
        figures=figures,
        notes=(
            f"alpha = beta = {ALPHA:g}, 10,000 images of CIFAR-10 in each log. Times fewer: geometric mean. "
            "Price by sigma: " + ", ".join(f"{price:,} at {sigma:g}" for sigma, price in CHEAP.items()) + ".",
        ),
    )
