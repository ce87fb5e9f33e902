"""Samples per image of the procedure `optimal`, computed exactly on published logs of five training methods.

Nothing is simulated: for each p_A of the logs the expected samples and the probability of a certificate follow exactly
from the boundaries of each procedure.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import sqrt
from pathlib import Path

from benchmarks.paper.samples_logs import (
    ALPHA,
    BETA,
    HELD_OUT,
    METHODS,
    RATIOS,
    SIGMAS,
    Population,
    add_options,
    each_of,
    geometric_mean,
)
from benchmarks.result import Figure, Result
from smoothcert.boundaries import Outcome
from smoothcert.noise import Gaussian
from smoothcert.optimal import leader_outcome
from smoothcert.plan import Plan, plan
from smoothcert.procedures import Adaptive, AnyProcedure, Optimal, Sequential

ADAPTIVE, LOST, OPTIMAL = Adaptive(), Sequential(abandon="lost-certificate"), Optimal()
COMPARED: dict[str, AnyProcedure] = {"CertifyAdp": ADAPTIVE, "lost-certificate": LOST, "optimal": OPTIMAL}
POWER_RATIOS = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5)
"""The radii in standard deviations at which the chance to certify is compared for every p_A."""
POWER_STEP = 0.1
"""The step of p_A in that comparison, in standard deviations of the last count of `optimal`."""


@dataclass(frozen=True)
class Saving:
    """The averages of every procedure over the images of one log, at one radius."""

    setting: str
    held_out: bool
    samples: dict[str, float]
    accuracy: dict[str, float]
    """Certified accuracy in percent."""
    two_classes: float
    """The samples of `optimal` where all other samples of an image fall on one rival."""

    def gain(self, over: str) -> float:
        return self.samples[over] / self.samples["optimal"]

    @property
    def points(self) -> float:
        """The change of certified accuracy against CertifyAdp."""
        return self.accuracy["optimal"] - self.accuracy["CertifyAdp"]


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser)


def run(options: argparse.Namespace) -> Result:
    arguments = [(options.logs, method, sigma) for method in METHODS for sigma in SIGMAS]
    savings = [saving for several in each_of(savings_of_log, arguments, jobs=options.jobs) for saving in several]
    drops = each_of(power_drop, [(ratio,) for ratio in POWER_RATIOS], jobs=options.jobs)
    return report(savings, max(drops))


def savings_of_log(logs: Path, method: str, sigma: float) -> list[Saving]:
    return list(savings_of(Population.read(logs, method, sigma), method, sigma))


def savings_of(population: Population, method: str, sigma: float) -> Iterator[Saving]:
    for ratio in RATIOS[sigma]:
        radius = ratio * sigma
        plans = {name: plan(each, Gaussian(sigma), radius, alpha=ALPHA, beta=BETA) for name, each in COMPARED.items()}
        expected = {name: cache(each.expected) for name, each in plans.items()}
        yield Saving(
            setting=f"{method} σ={sigma:g} r={radius:g}",
            held_out=method in HELD_OUT,
            samples={name: mean_samples(population, each) for name, each in expected.items()},
            accuracy={name: accuracy(population, each) for name, each in expected.items()},
            two_classes=mean_samples_of_leader(population, plans["optimal"]),
        )


def mean_samples(population: Population, expected: Callable[[float], Outcome]) -> float:
    return population.mean(lambda p: expected(p).samples)


def accuracy(population: Population, expected: Callable[[float], Outcome]) -> float:
    return 100 * population.mean_of_correct(lambda p: expected(p).certify)


def mean_samples_of_leader(population: Population, planned: Plan) -> float:
    rule = planned.boundaries
    assert rule is not None
    return population.mean(lambda p: leader_outcome(rule, p).samples)


def power_drop(ratio: float) -> float:
    """The most by which the chance to certify is below that of CertifyAdp, over all p_A near the least that may."""
    noise = Gaussian(1.0)
    ours, theirs = (plan(each, noise, ratio, alpha=ALPHA, beta=BETA) for each in (OPTIMAL, ADAPTIVE))
    step = POWER_STEP * sqrt(ours.p0 * (1 - ours.p0) / OPTIMAL.max_samples)
    p_as = [p for i in range(round(12 / POWER_STEP)) if (p := ours.p0 + i * step) < 1]
    return max(theirs.expected(p).certify - ours.expected(p).certify for p in p_as)


def report(savings: list[Saving], drop: float) -> Result:
    columns = ("setting", *(f"{name}, samples" for name in COMPARED), "x CertifyAdp", "x lost", "certified %", "change")
    rows = [
        (
            each.setting,
            *(round(each.samples[name]) for name in COMPARED),
            round(each.gain("CertifyAdp"), 2),
            round(each.gain("lost-certificate"), 2),
            round(each.accuracy["optimal"], 3),
            round(each.points, 3),
        )
        for each in savings
    ]
    held_out = [each for each in savings if each.held_out]
    figures = [
        Figure(
            "times fewer samples than CertifyAdp", geometric_mean(s.gain("CertifyAdp") for s in savings), at_least=3.6
        ),
        Figure("the same, held-out methods", geometric_mean(s.gain("CertifyAdp") for s in held_out), at_least=3.6),
        Figure("the same, least setting", min(s.gain("CertifyAdp") for s in savings)),
        Figure(
            "times fewer samples than lost-certificate",
            geometric_mean(s.gain("lost-certificate") for s in savings),
            at_least=1.3,
        ),
        Figure("least change of certified accuracy, points", min(s.points for s in savings), at_least=-0.03),
        Figure("largest drop of the chance to certify, any p_A, points", 100 * drop, at_most=1.0),
        Figure(
            "most samples more if there are two classes, percent",
            max(100 * (s.two_classes / s.samples["optimal"] - 1) for s in savings),
            at_most=0.3,
        ),
    ]
    return Result(
        name="optimal",
        compares="exact mean samples per image (the selection included) on published logs of CIFAR-10, 10,000 images "
        "each",
        columns=columns,
        rows=rows,
        figures=figures,
        notes=(
            f"alpha = beta = {ALPHA:g}, every procedure with its defaults. Times fewer: geometric mean over the "
            f"{len(savings)} settings; {' and '.join(HELD_OUT)} had no part in choosing the defaults. The chance to "
            f"certify was compared at r / sigma = {', '.join(f'{ratio:g}' for ratio in POWER_RATIOS)}.",
        ),
    )
