"""Transfer (incremental smoothing, Ugare et al., ICLR 2024): a changed ensemble, certified by means of the old one.

Let c be the class of a `fixed` certificate of the old ensemble, which has counted c in x of n_old samples, and let
alpha be the level of the new claim.

1. P(old = c) >= lower_bound(x, n_old, alpha / 2) with probability at least 1 - alpha / 2. This may be another level
   than that of the old certificate: other samples chose c, and the level is fixed by this procedure.
2. Both ensembles run on n fresh samples, on common noise. If they disagree on d of these, zeta = P(old != new) is at
   most upper_bound(d, n, alpha / 2) with probability at least 1 - alpha / 2.
3. P(new = c) >= P(old = c) - zeta, so the difference of the bounds is false with probability at most alpha (union).

Neither step needs the samples of the other to be independent of its own. The noise of the second step follows from the
seed of the new question, of which the old certificate is a part, so nobody can choose c, n or the old certificate after
seeing it. Where c is nearly certain, both bounds cost more than a new count of c, and n samples of the new ensemble
alone bound P(new = c) directly (`joint` is False): c is still chosen by other samples.
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
from smoothcert.verdict import Stage, Verdict

if TYPE_CHECKING:
    from smoothcert.certificate import Certificate

DISAGREEMENT = 0.05
"""The disagreement that is expected by default: about that of a ResNet20 and its bfloat16 version."""
MOST_BASIS = 1_000_000
"""The characters of the old certificate. Those of this version take some thousands; one of format 1 lists all classes
twice, which are 100,000 at most."""


def certify_transferred(
    noise: Noise, top_class: int, *, old_count: int, old_n: int, n: int, joint: bool = True, alpha: float = 0.001
) -> Procedure:
    """With probability at least 1 - alpha, the verdict abstains or `top_class` is the smoothed one within its radius.

    The samples are counted by the class on which both ensembles agree, and under no class where they do not; if they
    are not `joint`, by the class of the new ensemble.
    """
    require_count("n", n)
    require_level("alpha", alpha)
    p_old = lower_bound(old_count, old_n, alpha / 2) if joint else None
    return _certify_transferred(noise, top_class, p_old, n, alpha)


def _certify_transferred(noise: Noise, c: int, p_old: float | None, n: int, alpha: float) -> Procedure:
    counts = yield from draw(n)
    *classes, disagreed = counts
    count = classes[c] if c < len(classes) else 0
    p_lower = lower_bound(count, n, alpha) if p_old is None else _lowered(p_old, disagreed, n, alpha)
    if not p_lower > 0.5 or not count:
        return Verdict(None, 0.0, p_lower, n, "exhausted", (Stage(counts, n, count, "exhausted", p_lower),), ())
    stage = Stage(counts, n, count, "certified", p_lower)
    return Verdict(c, noise.radius(p_lower), p_lower, n, "certified", (stage,), ())


def _lowered(p_old: float, disagreed: int, n: int, alpha: float) -> float:
    """The bound on P(old = c), less that on the disagreement."""
    return max(0.0, p_old - upper_bound(disagreed, n, alpha / 2))


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

    @classmethod
    def planned(
        cls, old: Certificate, *, alpha: float, tolerance: float, disagreement: float = DISAGREEMENT
    ) -> Transfer:
        """The least samples for which the radius is expected to be smaller than the old one by at most `tolerance`.

        They depend on the old certificate alone. `tolerance` is a share of its radius, between 0 and 1; `disagreement`
        is the zeta that is expected, as a share of the samples that the old ensemble does not give to its class.
        """
        if not 0 < tolerance < 1:
            raise DomainError(f"tolerance must be a share of the radius, between 0 and 1, got {tolerance!r}")
        if not 0 <= disagreement <= 1:
            raise DomainError(f"disagreement must be a share between 0 and 1, got {disagreement!r}")
        count, n, _ = _facts(old)
        share, noise = count / n, old.noise
        wanted = noise.probability((1 - tolerance) * noise.radius(max(0.5, lower_bound(count, n, alpha))))
        spare = lower_bound(count, n, alpha / 2) - wanted
        zeta = disagreement * (1 - share)
        directly = _least(n, lambda m: lower_bound(round(share * m), m, alpha) >= wanted)
        jointly = _least(directly, lambda m: upper_bound(round(zeta * m), m, alpha / 2) <= spare)
        return cls(basis=old.model_dump_json(), n=jointly, joint=jointly < directly)

    @property
    def old(self) -> Certificate:
        """The certificate that this rests on; DomainError if it is not one, or claims nothing."""
        return _read(self.basis)

    def start(self, noise: Noise, radius: float | None, *, alpha: float, beta: float) -> Procedure:
        """The procedure, ready to run; it uses neither a target radius nor beta."""
        count, n, top_class = _facts(self.old)
        return certify_transferred(noise, top_class, old_count=count, old_n=n, n=self.n, joint=self.joint, alpha=alpha)

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
        """The count of agreements from which the samples prove this radius, or that of the class; it never abandons."""
        if not self.joint:
            certify_at = least_certifying(noise, radius, self.n, alpha)
        else:
            count, n, _ = _facts(self.old)
            p_old = lower_bound(count, n, alpha / 2)
            certify_at = _least(
                self.n + 1,
                lambda k: proves(noise, _lowered(p_old, self.n - k, self.n, alpha), radius),
            )
        return Boundaries(np.array([self.n]), np.array([certify_at]), np.array([-1]))

    @property
    def most_samples(self) -> int:
        return self.n

    def largest_radius(self, noise: Noise, *, alpha: float) -> float:
        """The radius that is proved if the ensembles never disagree."""
        if not self.joint:
            return super().largest_radius(noise, alpha=alpha)
        count, n, _ = _facts(self.old)
        return noise.radius(lower_bound(count, n, alpha / 2) - upper_bound(0, self.n, alpha / 2))


def _read(text: str) -> Certificate:
    # The result is not kept: the text comes from clients, and reading it takes less than a millisecond.
    from smoothcert.certificate import Certificate

    try:
        old = Certificate.from_json(text)
    except CertificateError as error:
        raise DomainError(f"basis: {error}") from error
    _facts(old)
    return old


def _facts(old: Certificate) -> tuple[int, int, int]:
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
