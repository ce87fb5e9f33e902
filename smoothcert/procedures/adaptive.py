"""CertifyAdp (the paper's Algorithm 2): prove a target radius in stages, few samples where few suffice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field

from smoothcert.boundaries import Boundaries
from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.errors import DomainError, require_count, require_level, require_radius
from smoothcert.noise import Noise
from smoothcert.procedures.drawn import Drawn
from smoothcert.procedures.parameters import N0, Parameters, WholeNumber
from smoothcert.procedures.protocol import Procedure, draw, draw_more, no_class, pool, top_class
from smoothcert.procedures.thresholds import greatest_abandoning, least_certifying, proves, rules_out
from smoothcert.verdict import Stage, Verdict

MOST_STAGES = 64
"""The largest number of stages, far above any use: every stage gets an equal share of alpha."""
STAGES = (100, 1_000, 10_000, 120_000)
"""The samples of each stage by default: tenfold steps up to about the radii of Certify (Theorem 2(3))."""


def certify_adaptive(
    noise: Noise,
    radius: float,
    *,
    n0: int = N0,
    stages: Sequence[int] = STAGES,
    alpha: float = 0.001,
    beta: float = 0.001,
    keep_samples: bool = False,
) -> Procedure:
    """With probability at least 1 - alpha, the verdict abstains or its class is the smoothed one within its radius.

    Abstains before the last stage only if at least 1 - beta confident that the radius cannot be shown. The s lower
    bounds hold jointly, so the verdict's radius may exceed the target. With `keep_samples` each stage decides on all
    samples so far: the looks are fixed in advance and the class is fixed once, so the same alpha / s holds.
    """
    require_radius(radius)
    require_count("n0", n0)
    require_stages(stages)
    require_level("alpha", alpha)
    require_level("beta", beta)
    require_level("alpha divided by the stages", alpha / len(stages))
    require_level("beta divided by the stages", beta / max(1, len(stages) - 1))
    return _certify_adaptive(noise, radius, n0, tuple(stages), alpha, beta, keep_samples)


def _certify_adaptive(
    noise: Noise, radius: float, n0: int, stages: Sequence[int], alpha: float, beta: float, keep_samples: bool
) -> Procedure:
    s = len(stages)
    selection = yield from draw(n0)
    c_a = top_class(selection)
    if c_a is None:
        return no_class(selection)
    kept: Drawn = (0,) * len(selection)
    samples, history = n0, []
    for i, n_i in enumerate(stages, start=1):
        counts = yield from draw_more(n_i, selection)
        samples += n_i
        kept = pool(kept, counts) if keep_samples else counts
        n, count = sum(kept), kept[c_a]
        p_lower = lower_bound(count, n, alpha / s)
        if proves(noise, p_lower, radius):
            history.append(Stage(counts, n, count, "certified", p_lower))
            return Verdict(c_a, noise.radius(p_lower), p_lower, samples, "certified", tuple(history), selection)
        if i == s:
            break
        p_upper = upper_bound(count, n, beta / (s - 1))
        if rules_out(noise, p_upper, radius):
            history.append(Stage(counts, n, count, "abandoned", p_lower, p_upper))
            return Verdict(None, 0.0, p_lower, samples, "abandoned", tuple(history), selection)
        history.append(Stage(counts, n, count, "continued", p_lower, p_upper))
    history.append(Stage(counts, n, count, "exhausted", p_lower))
    return Verdict(None, 0.0, p_lower, samples, "exhausted", tuple(history), selection)


def require_stages(stages: Sequence[int]) -> Sequence[int]:
    """Return the stages; DomainError unless there is at least one and each is larger than the one before."""
    if not len(stages):
        raise DomainError("stages must name at least one stage, got none")
    if len(stages) > MOST_STAGES:
        raise DomainError(f"stages must be at most {MOST_STAGES}, got {len(stages)} of them")
    for n_i in stages:
        require_count("every stage", n_i)
    require_count("the sum of stages", sum(stages))
    if any(later <= earlier for earlier, later in pairwise(stages)):
        raise DomainError(f"stages must be strictly increasing, got {list(stages)}")
    return stages


class Adaptive(Parameters):
    """`certify_adaptive` by name, with its parameters."""

    budget: ClassVar[str] = "stages"
    rivals: ClassVar[bool] = False
    title: ClassVar[str] = "Adaptive"
    summary: ClassVar[str] = "Proves the target radius in stages, so that most images need few samples (CertifyAdp)."
    budget_label: ClassVar[str] = "Stages"
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ({"keep_samples": False}, {"keep_samples": True})

    name: Literal["adaptive"] = "adaptive"
    stages: Annotated[tuple[WholeNumber, ...], AfterValidator(require_stages)] = STAGES
    """The samples of each stage, in increasing order."""
    keep_samples: Annotated[bool, Field(strict=True)] = False
    """Whether a stage decides on all samples so far instead of its own."""

    @property
    def label(self) -> str:
        return "adaptive, kept" if self.keep_samples else "adaptive"

    def start(self, noise: Noise, radius: float | None, *, alpha: float, beta: float) -> Procedure:
        return certify_adaptive(
            noise,
            self.target(radius),
            n0=self.n0,
            stages=self.stages,
            alpha=alpha,
            beta=beta,
            keep_samples=self.keep_samples,
        )

    def boundaries(self, noise: Noise, radius: float, *, alpha: float, beta: float) -> Boundaries:
        """The counts at which each stage certifies and abandons."""
        s = len(self.stages)
        looks = list(accumulate(self.stages)) if self.keep_samples else list(self.stages)
        certify = [least_certifying(noise, radius, n, alpha / s) for n in looks]
        abandon = [greatest_abandoning(noise, radius, n, beta / (s - 1)) for n in looks[:-1]]
        return Boundaries(np.array(looks), np.array(certify), np.array([*abandon, -1]), pooled=self.pooled)

    @property
    def most_samples(self) -> int:
        return sum(self.stages)

    @property
    def look_count(self) -> int:
        return len(self.stages)

    @property
    def pooled(self) -> bool:
        return self.keep_samples

    @property
    def last_look(self) -> int:
        """The samples of the last stage, or of all stages where samples are kept."""
        return sum(self.stages) if self.keep_samples else self.stages[-1]

    def last_alpha(self, alpha: float) -> float:
        """Every stage has the same share (Bonferroni)."""
        return alpha / len(self.stages)

    def least_beta(self, beta: float) -> float:
        """The share of each stage but the last, which does not abandon."""
        return beta / max(1, len(self.stages) - 1)
