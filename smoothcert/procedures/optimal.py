"""The sequential procedure with a price: the fewest samples for what a certificate is worth, one radius or several."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from smoothcert import optimal
from smoothcert.boundaries import Boundaries
from smoothcert.bounds import unanimous_bound
from smoothcert.errors import MOST, DomainError, require_count, require_level, require_radius
from smoothcert.noise import Noise
from smoothcert.optimal import CurveBoundaries, require_leading
from smoothcert.procedures.drawn import Drawn
from smoothcert.procedures.parameters import Parameters, WholeNumber
from smoothcert.procedures.protocol import Procedure, draw, draw_more, no_class, pool, top_class
from smoothcert.procedures.sequential import MAX_SAMPLES
from smoothcert.sequential import MOST_SAMPLES, SLACK, looks_up_to
from smoothcert.verdict import Stage, Verdict, floor_radius

PRICE = 750_000
"""The samples that one certificate is worth, by default. For radii from .05 sigma on and at every p_A, the chance to
certify is at most one percentage point below that of CertifyAdp with its defaults."""
MOST_RADII = 32
"""The most radii of one run; it bounds the work of a verifier. For a curve at many radii there is `largest`."""
MOST_BOUNDARIES = 4 * MOST_SAMPLES
"""The largest product of `max_samples` and the number of radii: building their boundaries takes up to ten seconds."""
LEAST_GAP = Decimal("1e-6")
"""The least distance of two radii of one run: a certificate states six decimals."""


def certify_optimal(
    noise: Noise,
    radii: float | Sequence[float],
    *,
    n0: int = 0,
    max_samples: int = MAX_SAMPLES,
    price: int = PRICE,
    alpha: float = 0.001,
) -> Procedure:
    """With probability at least 1 - alpha, the verdict abstains or its class is the smoothed one within the radius.

    It proves the target radius, or the largest that it can of several, and no more. It gives up at a look if and only
    if, with Jeffreys' prior for p_A, every way of going on would cost at least `price` samples in expectation for each
    certificate. An abstention says nothing about p_A.

    With n0 = 0 the class is the one with the most samples so far at each look; see `smoothcert.optimal` for the proof.
    Otherwise it is chosen from n0 samples that are not counted.
    """
    targets = require_radii(radii if isinstance(radii, Sequence) else (radii,))
    require_count("n0", n0, least=0)
    require_level("alpha", alpha)
    p0s = tuple(noise.probability(radius) for radius in targets)
    rungs = optimal.curve(p0s, alpha=alpha, price=price, max_samples=max_samples, leading=n0 == 0)
    return _certify_optimal(targets, p0s, n0, rungs)


def _certify_optimal(radii: Sequence[float], p0s: Sequence[float], n0: int, rungs: Sequence[Boundaries]) -> Procedure:
    selection: Drawn = (yield from draw(n0)) if n0 else ()
    chosen = top_class(selection) if n0 else None
    if n0 and chosen is None:
        return no_class(selection)
    total: Drawn = (0,) * len(selection)  # the counts of all classes, since the leader may change
    proved, history = 0, []
    for j, (n, step) in enumerate(zip(rungs[0].looks.tolist(), rungs[0].steps.tolist(), strict=True)):
        counts = yield from (draw_more(step, total) if total else draw(step))
        total = pool(total, counts) if total else counts
        boundary = {"certify_at": int(rungs[proved].certify[j]), "abandon_at": int(rungs[proved].abandon[j])}
        c_a = top_class(total) if chosen is None else chosen
        if c_a is None:
            history.append(Stage(counts, n, 0, "abandoned", **boundary))
            return Verdict(None, 0.0, None, n, "no-class", tuple(history), selection)
        count = total[c_a]
        while proved < len(rungs) and count >= rungs[proved].certify[j]:
            proved, chosen = proved + 1, c_a  # the class of a proved radius is kept for the larger ones
        complete = proved == len(rungs)
        hopeless = not complete and count <= rungs[proved].abandon[j]
        last = n == rungs[0].looks[-1]
        if proved and (complete or hopeless or last):
            history.append(Stage(counts, n, count, "certified", **boundary))
            return Verdict(c_a, radii[proved - 1], p0s[proved - 1], n0 + n, "certified", tuple(history), selection)
        if hopeless:
            history.append(Stage(counts, n, count, "abandoned", **boundary))
            return Verdict(None, 0.0, None, n0 + n, "abandoned", tuple(history), selection)
        history.append(Stage(counts, n, count, "exhausted" if last else "continued", **boundary))
    return Verdict(None, 0.0, None, n0 + n, "exhausted", tuple(history), selection)


def require_radii(radii: Sequence[float]) -> tuple[float, ...]:
    """The radii of one run; DomainError unless there are some, each larger than the one before by LEAST_GAP."""
    if not 0 < len(radii) <= MOST_RADII:
        raise DomainError(f"radii must be from 1 to {MOST_RADII} numbers, got {len(radii)} of them")
    for radius in radii:
        require_radius(radius)
    exact = [Decimal(repr(float(radius))) for radius in radii]
    if any(larger - smaller < LEAST_GAP for smaller, larger in pairwise(exact)):
        raise DomainError(f"radii must increase by at least {LEAST_GAP:f}, got {list(radii)}")
    return tuple(map(float, radii))


def _proving(p0: float, n: int, level: float, *, leading: bool) -> bool:
    """Whether n samples that all fall on one class prove p0. Where the class is the leader, it may be another one."""
    return not leading or p0**n + (1 - p0) ** n <= level


Radius = Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)]


class Optimal(Parameters):
    """`certify_optimal` by name, with its parameters."""

    budget: ClassVar[str] = "max_samples"
    rivals: ClassVar[bool] = False
    title: ClassVar[str] = "Optimal"
    summary: ClassVar[str] = (
        "Proves the target radius by an exact sequential test that gives up where a certificate would cost more "
        "samples than it is worth."
    )
    budget_label: ClassVar[str] = "Most samples"
    recommended: ClassVar[bool] = True
    exceeds_target: ClassVar[bool] = False
    limit: ClassVar[int] = MOST_SAMPLES

    name: Literal["optimal"] = "optimal"
    n0: Annotated[int, Field(strict=True, ge=0, le=MOST)] = 0
    """The samples that choose the class; with 0 it is the class with the most samples so far at each look."""
    max_samples: Annotated[WholeNumber, Field(le=MOST_SAMPLES)] = MAX_SAMPLES
    """The largest number of samples of the estimation."""
    price: WholeNumber = PRICE
    """The samples that one certificate is worth."""
    radii: Annotated[tuple[Radius, ...], Field(max_length=MOST_RADII), AfterValidator(require_radii)] | None = None
    """Several radii in increasing order, of which the largest possible is proved; then the request has no radius."""

    @model_validator(mode="after")
    def _bound_work(self) -> Optimal:
        """Refuse boundaries that would keep a verifier busy for minutes."""
        if self.max_samples * self._tests > MOST_BOUNDARIES:
            raise DomainError(
                f"max_samples times the number of radii must be at most {MOST_BOUNDARIES:,}, got "
                f"{self.max_samples:,} times {self._tests}"
            )
        return self

    @property
    def _tests(self) -> int:
        return 1 if self.radii is None else len(self.radii)

    @property
    def label(self) -> str:
        return "optimal" if self.radii is None else f"optimal, {self._tests} radii"

    @property
    def targeted(self) -> bool:
        return self.radii is None

    @property
    def abandoning(self) -> str:
        return (
            f"Going on would have cost more than {self.price:,} samples for each certificate gained, on average over "
            "images with such counts. This does not say that the image is not robust."
        )

    def targets(self, radius: float | None) -> tuple[float, ...]:
        if self.radii is not None and radius is not None:
            raise DomainError(f"radius must be left out where the procedure has radii, got {radius!r}")
        return self.radii or (self.target(radius),)

    def least_target(self, radius: float | None) -> float:
        return self.target(radius) if self.radii is None else self.radii[0]

    def unrounded(self, radius: float, target: float | None) -> float:
        """The one of the radii that is rounded down to this one."""
        if self.radii is None:
            return super().unrounded(radius, target)
        return next((each for each in self.radii if floor_radius(each) == radius), radius)

    def require_levels(self, *, alpha: float, beta: float) -> None:
        if self.n0 == 0:
            require_leading(0.5, alpha)

    def start(self, noise: Noise, radius: float | None, *, alpha: float, beta: float) -> Procedure:
        """The procedure, ready to run; it does not use beta."""
        radii = self.targets(radius)
        for each in radii:
            noise.require_radius(each)
        return certify_optimal(noise, radii, n0=self.n0, max_samples=self.max_samples, price=self.price, alpha=alpha)

    def boundaries(self, noise: Noise, radius: float, *, alpha: float, beta: float) -> Boundaries:
        """The counts at which each look certifies and abandons."""
        radii = self.radii or (radius,)
        p0s = tuple(noise.probability(each) for each in radii)
        rungs = optimal.curve(p0s, alpha=alpha, price=self.price, max_samples=self.max_samples, leading=self.n0 == 0)
        first = rungs[0]
        if self.radii is None:
            return first
        return CurveBoundaries(
            first.looks, first.certify, first.abandon, worth=first.worth, rungs=rungs, radii=self.radii
        )

    @property
    def most_samples(self) -> int:
        return self.max_samples

    @property
    def look_count(self) -> int:
        return len(looks_up_to(self.max_samples))

    def last_alpha(self, alpha: float) -> float:
        """All of alpha: where only the last look can certify, no earlier one has spent any of it."""
        return alpha * (1 - SLACK)

    def samples_needed(self, noise: Noise, radius: float, *, alpha: float) -> int | None:
        """The least number of samples that can prove the radius; near radius 0 the leader needs one or two more."""
        n, level = super().samples_needed(noise, radius, alpha=alpha), self.last_alpha(alpha)
        while n is not None and not _proving(noise.probability(radius), n, level, leading=self.n0 == 0):
            n += 1
        return n

    def largest_radius(self, noise: Noise, *, alpha: float) -> float:
        """The largest radius within reach; of several radii, the largest that is."""
        reach = self.reach(noise, alpha=alpha)
        return max((each for each in self.radii or () if each <= reach), default=reach)

    def reach(self, noise: Noise, *, alpha: float) -> float:
        return noise.radius(self._largest_p0(alpha))

    def _largest_p0(self, alpha: float) -> float:
        """The largest p0 that is certified if every sample falls on one class."""
        n, level = self.max_samples, self.last_alpha(alpha)
        alone = unanimous_bound(n, level)
        if alone <= 0.5 or _proving(alone, n, level * (1 + SLACK), leading=self.n0 == 0):
            return alone
        # Two classes may lead: p0^n + (1 - p0)^n <= alpha, which rises with p0 from 1/2 on.
        low, high = 0.5, alone
        while low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if middle**n + (1 - middle) ** n <= level else (low, middle)
        return low

    @property
    def boundary_samples(self) -> int:
        """As many as for one radius, or an eighth for each: those of lost-certificate take more than eight times as
        long."""
        return max(self.max_samples, self.max_samples * self._tests // 8)

    def interval_alpha(self, alpha: float) -> float:
        """Half of each look's share of alpha, so that both ends of all intervals hold together."""
        return super().interval_alpha(alpha) / 2
