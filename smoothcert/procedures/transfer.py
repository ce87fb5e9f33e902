"""Transfer (incremental smoothing, Ugare et al., ICLR 2024): a changed ensemble, certified by means of the old one.

Let c be the class of a `fixed` certificate of the old ensemble, which has counted c in x of n_old samples, and let
alpha be the level of the new claim. n fresh samples are drawn, whose noise follows from the seed of the new question;
the old certificate is a part of it, so nobody can choose c, n or the old certificate after seeing it.

1. If the old ensemble missed c at least MISSES times (`joint`), both run on the new samples, on common noise. Those
   that the old one gives to c and the new one does not are lost. P(new = c) >= P(old = c) - P(lost), and
   `smoothcert.product` bounds this difference from both counts. For any n, its level given x is at most
   A(u) = min(1, k / u), where u is the p-value of x and k the critical product; the integral of A is alpha.
2. If not, there is nearly nothing to gain from the old count: the new ensemble alone runs, and its count of c bounds
   P(new = c), at level alpha given x. c was chosen by other samples.

The level of both together is alpha. x decides which applies, by MISSES alone: with t = P(fewer misses), it is at most
alpha t + (the integral of A from t to 1). This is convex in t, because A decreases, and it is alpha at t = 0 and at 1.
A free choice after seeing x could err more often than alpha; so `start` refuses another choice.

Certificates of earlier builds (`combination` is "union") count every disagreement, and subtract its bound at alpha / 2
from that on P(old = c) at alpha / 2. They are verified as they were made. Nothing refuses another choice of `joint`
there: if it was made after seeing x, the chance of a false certificate is at most 1.5 alpha, and a remark says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from smoothcert.boundaries import Boundaries
from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.errors import CertificateError, DomainError, require_count, require_level
from smoothcert.noise import Noise
from smoothcert.procedures.fixed import Fixed
from smoothcert.procedures.one_look import OneLook
from smoothcert.procedures.parameters import WholeNumber
from smoothcert.procedures.protocol import Procedure, draw
from smoothcert.procedures.thresholds import least_certifying, proves
from smoothcert.product import lower_difference
from smoothcert.verdict import Stage, Verdict

if TYPE_CHECKING:
    from smoothcert.certificate import Certificate

MISSES = 10
"""Both ensembles run where the old one missed its class at least so often. The level of the claim rests on it."""
MOST_SAMPLES = 1_000_000_000
"""The most samples of either count: far larger ones take a second to verify, and nobody draws them."""
MOST_BASIS = 1_000_000
"""The characters of the old certificate. Those of this version take some thousands; one of format 1 lists all classes
twice, which are 100,000 at most."""


Combination = Literal["union", "product"]


def certify_transferred(
    noise: Noise,
    top_class: int,
    *,
    old_count: int,
    old_n: int,
    n: int,
    joint: bool = True,
    alpha: float = 0.001,
    combination: Combination = "product",
) -> Procedure:
    """With probability at least 1 - alpha, the verdict abstains or `top_class` is the smoothed one within its radius.

    The samples are counted by the class of the new ensemble; if they are `joint`, those that it has lost are counted
    under no class. For a "union" they are counted by the class on which both ensembles agree, and under no class where
    they do not.
    """
    require_count("n", n)
    require_level("alpha", alpha)
    if combination == "product" and joint != runs_jointly(old_count, old_n):
        wanted = "joint" if not joint else "not joint"
        raise DomainError(f"a transfer is {wanted} where the old ensemble missed its class {old_n - old_count} times")
    if combination == "product" and max(old_n, n) > MOST_SAMPLES:
        raise DomainError(f"a transfer has at most {MOST_SAMPLES:,} samples, old or new, got {max(old_n, n):,}")
    bound = _lowered(old_count, old_n, n, alpha, combination) if joint else None
    return _certify_transferred(noise, top_class, bound, n, alpha)


def runs_jointly(old_count: int, old_n: int) -> bool:
    """Whether the old ensemble has to run on the new samples, too."""
    return old_n - old_count >= MISSES


def _certify_transferred(
    noise: Noise, c: int, lowered: Callable[[int], float] | None, n: int, alpha: float
) -> Procedure:
    counts = yield from draw(n)
    *classes, without = counts
    count = classes[c] if c < len(classes) else 0
    p_lower = lower_bound(count, n, alpha) if lowered is None else lowered(without)
    if not p_lower > 0.5 or not count:
        return Verdict(None, 0.0, p_lower, n, "exhausted", (Stage(counts, n, count, "exhausted", p_lower),), ())
    stage = Stage(counts, n, count, "certified", p_lower)
    return Verdict(c, noise.radius(p_lower), p_lower, n, "certified", (stage,), ())


def _lowered(old_count: int, old_n: int, n: int, alpha: float, combination: Combination) -> Callable[[int], float]:
    """The bound on P(new = c), by the number of the n samples that were lost, or on which both disagree."""
    if combination == "product":
        return lambda lost: lower_difference(old_count, old_n, int(lost), n, alpha)
    p_old = lower_bound(old_count, old_n, alpha / 2)
    return lambda disagreed: max(0.0, p_old - upper_bound(disagreed, n, alpha / 2))


class Transfer(OneLook):
    """`certify_transferred` by name, with the certificate that it rests on.

    A service does not offer it: a worker would need both ensembles. `smoothcert.engine.transfer` runs it.
    """

    budget: ClassVar[str] = "n"
    local: ClassVar[bool] = True
    numbered: ClassVar[bool] = True
    own: ClassVar[tuple[str, ...]] = ("basis", "n", "joint")
    summary: ClassVar[str] = "Certifies a changed ensemble from a certificate of the old one and their disagreement."

    name: Literal["transfer"] = "transfer"
    n0: Literal[0] = 0
    """There is no selection: the class is that of the old certificate."""
    basis: Annotated[str, Field(max_length=MOST_BASIS)]
    """The `fixed` certificate of the old ensemble for the same image and noise, as its own JSON."""
    n: WholeNumber
    """The samples of the new ensemble."""
    joint: Annotated[bool, Field(strict=True)] = True
    """Whether the old ensemble runs on the same samples; otherwise they bound the probability of the class directly."""
    combination: Annotated[Combination, Field(exclude_if=lambda value: value == "union")] = "union"
    """How both counts are combined; certificates of earlier builds do not say that it is by a "union"."""

    @classmethod
    def of(cls, old: Certificate, n: int) -> Transfer:
        """A transfer from this certificate with n samples."""
        count, old_n, _ = facts(old)
        return cls(basis=old.model_dump_json(), n=n, joint=runs_jointly(count, old_n), combination="product")

    @property
    def old(self) -> Certificate:
        """The certificate that this rests on; DomainError if it is not one, or claims nothing."""
        return _read(self.basis)

    def start(self, noise: Noise, radius: float | None, *, alpha: float, beta: float) -> Procedure:
        """The procedure, ready to run; it uses neither a target radius nor beta."""
        count, n, top_class = facts(self.old)
        return certify_transferred(
            noise,
            top_class,
            old_count=count,
            old_n=n,
            n=self.n,
            joint=self.joint,
            alpha=alpha,
            combination=self.combination,
        )

    def remark(self, index: int | None) -> str | None:
        if index is None or self.combination != "union":
            return None
        return (
            "The counts of both ensembles are combined by a union, as in earlier builds. If it was decided after the "
            "old count was seen whether both run, the certificate is false with probability at most 1.5 alpha."
        )

    def objections(self, certificate: Certificate) -> Iterator[str]:
        """What is wrong with the certificate that this rests on, by itself or for this image and noise."""
        from smoothcert.verification import verify

        try:
            old = self.old
        except DomainError as error:
            yield str(error)
            return
        yield from (f"is not consistent: {problem}" for problem in verify(old).problems)
        if old.noise != certificate.noise:
            yield f"is about {old.noise.label}, and this certificate about {certificate.noise.label}"
        if old.provenance is None or certificate.provenance is None:
            yield "does not say of which image it is, or this certificate does not"
        elif old.provenance.input != certificate.provenance.input:
            images = old.provenance.input.sha256, certificate.provenance.input.sha256
            yield f"is about the image {images[0]}, and this certificate about {images[1]}"

    def boundaries(self, noise: Noise, radius: float, *, alpha: float, beta: float) -> Boundaries:
        """The count of the class from which the samples prove this radius if all others are lost; it never abandons."""
        if not self.joint:
            certify_at = least_certifying(noise, radius, self.n, alpha)
        else:
            lowered = self._lowered(alpha)
            certify_at = _least(self.n + 1, lambda count: proves(noise, lowered(self.n - count), radius))
        return Boundaries(np.array([self.n]), np.array([certify_at]), np.array([-1]))

    @property
    def most_samples(self) -> int:
        return self.n

    def largest_radius(self, noise: Noise, *, alpha: float) -> float:
        """The radius that is proved if no sample is lost."""
        if not self.joint:
            return super().largest_radius(noise, alpha=alpha)
        return noise.radius(self._lowered(alpha)(0))

    def _lowered(self, alpha: float) -> Callable[[int], float]:
        count, n, _ = facts(self.old)
        return _lowered(count, n, self.n, alpha, self.combination)


def _read(text: str) -> Certificate:
    # The result is not kept: the text comes from clients, and reading it takes less than a millisecond.
    from smoothcert.certificate import Certificate

    try:
        old = Certificate.from_json(text)
    except CertificateError as error:
        raise DomainError(f"basis: {error}") from error
    facts(old)
    return old


def facts(old: Certificate) -> tuple[int, int, int]:
    """How often the old ensemble gave the class, among how many samples, and the class."""
    if not isinstance(old.procedure, Fixed):
        raise DomainError(f"basis must be a certificate of the fixed procedure, got one of {old.procedure.name}")
    if old.class_index is None:
        raise DomainError("basis is an abstention, and proves nothing that could be transferred: certify anew")
    stage = old.stages[-1]
    return stage.count, stage.n, old.class_index


def _least(most: int, holds: Callable[[int], bool]) -> int:
    """The least number from 1 on for which a condition holds that stays true from there on; `most` if none is."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
