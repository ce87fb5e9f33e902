"""The options that choose the noise of an experiment."""

from __future__ import annotations

import argparse

from smoothcert.engine.ensemble import Ensemble
from smoothcert.errors import DomainError
from smoothcert.noise import Noise, parse_noise, resolve


def add_noise_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--noise", help="like gaussian:sigma=0.25; by default the noise of the ensemble's training")
    parser.add_argument("--sigma", type=float, help="shorthand for --noise gaussian:sigma=SIGMA")


def chosen_noise(options: argparse.Namespace, ensemble: Ensemble) -> Noise:
    """The noise that the options name, or else the one with which the ensemble was trained."""
    named = None if options.noise is None else parse_noise(options.noise)
    noise = resolve(named, options.sigma) or ensemble.noise
    if noise is None:
        raise DomainError(f"{ensemble.name} does not say with which noise it was trained: give --noise")
    return noise
