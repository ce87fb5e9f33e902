"""The largest radius of an image without a target: as many samples as a larger radius is worth."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from smoothcert.boundaries import Boundaries
from smoothcert.bounds import lower_bound
from smoothcert.errors import require_count
from smoothcert.largest import Thresholds, thresholds
from smoothcert.noise import Noise
from smoothcert.procedures.fixed import N
from smoothcert.procedures.parameters import N0, Parameters, WholeNumber
from smoothcert.procedures.protocol import Procedure, draw, draw_more, no_class, top_class
from smoothcert.procedures.thresholds import least_certifying
from smoothcert.sequential import MOST_SAMPLES, looks_up_to
from smoothcert.verdict import Stage, Verdict

PRICE = 3_000_000
"""The samples that a radius of 1 is worth, by default: for Gaussian noise and images of CIFAR-10 this keeps 99 % of the
average certified radius."""


def certify_largest(
    noise: Noise,
    *,
    n0: int = N0,
    max_samples: int = N,
    price: int = PRICE,
    alpha: float = 0.001,
    beta: float = 0.001,
) -> Procedure:
    """With probability at least 1 - alpha, the verdict abstains or its class is the smoothed one within its radius.

    The radius is that of a plain Clopper–Pearson bound at the full alpha: see `smoothcert.largest` for the proof. The
    run ends where, at the rate seen so far, no later look would add as much radius as its samples are worth; a radius
    of 1 in the norm of the noise is worth `price` samples. An image that is worth its samples is abandoned with
    probability at most beta.
    """
    require_count("n0", n0)
    rule = thresholds(noise, alpha=alpha, beta=beta, max_samples=max_samples, price=price)
    return _certify_largest(noise, n0, alpha, rule)


def _certify_largest(noise: Noise, n0: int, alpha: float, rule: Thresholds) -> Procedure:
    selection = yield from draw(n0)
    c_a = top_class(selection)
    if c_a is None:
        return no_class(selection)
    count, history = 0, []
    rows = zip(*(a.tolist() for a in (rule.looks, rule.steps, rule.ends, rule.abandon)), strict=True)
    for n, step, end, abandon_at in rows:
        counts = yield from draw_more(step, selection)
        count += counts[c_a]
        if count <= end:  # every count up to `end` ends the run, even one that proves nothing
            break
        if count <= abandon_at:
            history.append(Stage(counts, n, count, "abandoned", abandon_at=abandon_at))
            return Verdict(None, 0.0, None, n0 + n, "abandoned", tuple(history), selection)
        history.append(Stage(counts, n, count, "continued", abandon_at=abandon_at))
    p_lower = lower_bound(count, n, alpha)
    if not p_lower > 0.5:
        history.append(Stage(counts, n, count, "exhausted", p_lower, abandon_at=abandon_at))
        return Verdict(None, 0.0, p_lower, n0 + n, "exhausted", tuple(history), selection)
    history.append(Stage(counts, n, count, "certified", p_lower, abandon_at=abandon_at))
    radius = max(0.0, noise.radius(p_lower))
    return Verdict(c_a, radius, p_lower, n0 + n, "certified", tuple(history), selection)


class Largest(Parameters):
    """`certify_largest` by name, with its parameters."""

    budget: ClassVar[str] = "max_samples"
    rivals: ClassVar[bool] = False
    title: ClassVar[str] = "Largest"
    summary: ClassVar[str] = (
        "Proves the largest radius that is worth its samples, with about half of the samples of fixed."
    )
    budget_label: ClassVar[str] = "Most samples"
    limit: ClassVar[int] = MOST_SAMPLES

    name: Literal["largest"] = "largest"
    max_samples: Annotated[WholeNumber, Field(le=MOST_SAMPLES)] = N
    """The largest number of samples of the estimation."""
    price: WholeNumber = PRICE
    """The samples that a radius of 1 is worth, in the norm of the noise."""

    @property
    def targeted(self) -> bool:
        return False

    @property
    def abandoning(self) -> str:
        return "An image with a radius that is worth its samples is abandoned with probability at most beta."

    def start(self, noise: Noise, radius: float | None, *, alpha: float, beta: float) -> Procedure:
        """The procedure, ready to run; it does not use a target radius."""
        return certify_largest(
            noise, n0=self.n0, max_samples=self.max_samples, price=self.price, alpha=alpha, beta=beta
        )

    def boundaries(self, noise: Noise, radius: float, *, alpha: float, beta: float) -> Boundaries:
        """The counts that end a run or abandon it; only those that prove the radius depend on it."""
        rule = thresholds(noise, alpha=alpha, beta=beta, max_samples=self.max_samples, price=self.price)
        needed = np.array(
            [
                least_certifying(noise, radius, n, alpha) if end >= 0 else n + 1
                for n, end in zip(rule.looks.tolist(), rule.ends.tolist(), strict=True)
            ]
        )
        return replace(rule, certify=np.where(rule.ends >= rule.looks, needed, rule.looks + 1), needed=needed)

    @property
    def most_samples(self) -> int:
        return self.max_samples

    @property
    def look_count(self) -> int:
        return len(looks_up_to(self.max_samples))

    def least_beta(self, beta: float) -> float:
        """The share of each look but the last, which does not abandon."""
        return beta / max(1, self.look_count - 1)

    def interval_alpha(self, alpha: float) -> float:
        """Half of each look's share of alpha, so that both ends of all intervals hold together."""
        return super().interval_alpha(alpha) / 2
