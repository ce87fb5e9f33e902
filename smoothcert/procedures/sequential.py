"""The exact group-sequential procedure: the guarantee of CertifyAdp from a half or a third of its samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field

from smoothcert.boundaries import Boundaries
from smoothcert.errors import require_count, require_level, require_radius
from smoothcert.noise import Noise
from smoothcert.procedures.parameters import N0, Parameters, WholeNumber
from smoothcert.procedures.protocol import Procedure, draw, draw_more, no_class, top_class
from smoothcert.sequential import MOST_SAMPLES, SLACK, Abandon, boundaries, looks_up_to
from smoothcert.verdict import Stage, Verdict

MAX_SAMPLES = 131_100
"""The largest number of samples by default: the sum of the four default stages of CertifyAdp."""


def certify_sequential(
    noise: Noise,
    radius: float,
    *,
    n0: int = N0,
    max_samples: int = MAX_SAMPLES,
    alpha: float = 0.001,
    beta: float = 0.001,
    abandon: Abandon = "strict",
) -> Procedure:
    """With probability at least 1 - alpha, the verdict abstains or its class is the smoothed one within the radius.

    It proves the target radius and no more: a Clopper–Pearson bound where a sequential test stopped would overclaim.
    What an abstention promises about beta depends on `abandon`: see `smoothcert.sequential`.
    """
    require_radius(radius)
    require_count("n0", n0)
    require_count("max_samples", max_samples)
    require_level("alpha", alpha)
    require_level("beta", beta)
    p0 = noise.probability(radius)
    plan = boundaries(p0, alpha=alpha, beta=beta, max_samples=max_samples, abandon=abandon)
    return _certify_sequential(radius, p0, n0, plan)


def _certify_sequential(radius: float, p0: float, n0: int, plan: Boundaries) -> Procedure:
    selection = yield from draw(n0)
    c_a = top_class(selection)
    if c_a is None:
        return no_class(selection)
    count, history = 0, []
    rows = zip(*(a.tolist() for a in (plan.looks, plan.steps, plan.certify, plan.abandon)), strict=True)
    for n, step, certify_at, abandon_at in rows:
        counts = yield from draw_more(step, selection)
        count += counts[c_a]
        boundary = {"certify_at": certify_at, "abandon_at": abandon_at}
        if count >= certify_at:
            history.append(Stage(counts, n, count, "certified", **boundary))
            return Verdict(c_a, radius, p0, n0 + n, "certified", tuple(history), selection)
        if count <= abandon_at:
            history.append(Stage(counts, n, count, "abandoned", **boundary))
            return Verdict(None, 0.0, None, n0 + n, "abandoned", tuple(history), selection)
        last = n == plan.looks[-1]
        history.append(Stage(counts, n, count, "exhausted" if last else "continued", **boundary))
    return Verdict(None, 0.0, None, n0 + n, "exhausted", tuple(history), selection)


class Sequential(Parameters):
    """`certify_sequential` by name, with its parameters."""

    budget: ClassVar[str] = "max_samples"
    rivals: ClassVar[bool] = False
    title: ClassVar[str] = "Sequential"
    summary: ClassVar[str] = (
        "Proves the target radius by an exact sequential test, with a half or a third of the samples of adaptive."
    )
    budget_label: ClassVar[str] = "Most samples"
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = tuple({"abandon": each} for each in get_args(Abandon))
    recommended: ClassVar[bool] = True
    exceeds_target: ClassVar[bool] = False
    limit: ClassVar[int] = MOST_SAMPLES

    name: Literal["sequential"] = "sequential"
    max_samples: Annotated[WholeNumber, Field(le=MOST_SAMPLES)] = MAX_SAMPLES
    """The largest number of samples of the estimation."""
    abandon: Abandon = "strict"
    """What an abandoned run promises: see `smoothcert.sequential`."""

    @property
    def label(self) -> str:
        return f"sequential, {self.abandon}"

    @property
    def abandoning(self) -> str | None:
        if self.abandon == "strict":
            return super().abandoning
        return "A run that would have ended in a certificate is abandoned with probability at most beta."

    def start(self, noise: Noise, radius: float | None, *, alpha: float, beta: float) -> Procedure:
        return certify_sequential(
            noise,
            self.target(radius),
            n0=self.n0,
            max_samples=self.max_samples,
            alpha=alpha,
            beta=beta,
            abandon=self.abandon,
        )

    def boundaries(self, noise: Noise, radius: float, *, alpha: float, beta: float) -> Boundaries:
        """The counts at which each look certifies and abandons."""
        p0 = noise.probability(radius)
        return boundaries(p0, alpha=alpha, beta=beta, max_samples=self.max_samples, abandon=self.abandon)

    @property
    def most_samples(self) -> int:
        return self.max_samples

    @property
    def look_count(self) -> int:
        return len(looks_up_to(self.max_samples))

    def last_alpha(self, alpha: float) -> float:
        """All of alpha: where only the last look can certify, no earlier one has spent any of it."""
        return alpha * (1 - SLACK)

    @property
    def boundary_samples(self) -> int:
        return self.max_samples

    def interval_alpha(self, alpha: float) -> float:
        """Half of each look's share of alpha, so that both ends of all intervals hold together."""
        return super().interval_alpha(alpha) / 2
