"""The figures by which the paper judges certification, from certificates and labels.

Every average is over *all* images: one with an abstention, or certified for the wrong class, counts as zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum

from smoothcert.certificate import Certificate
from smoothcert.errors import DomainError
from smoothcert.estimate import Estimate, share


@dataclass(frozen=True)
class Judged:
    """A certificate and the label of its image.

    Where the label is not known, every class counts as the right one. A certificate that is not `sound`, because it
    does not follow from its counts, counts as an abstention.
    """

    certificate: Certificate
    label: int | None
    sound: bool = True

    @property
    def right(self) -> bool:
        """Whether it is certified, for the class of the label."""
        found = self.certificate.class_index
        return self.sound and found is not None and self.label in (None, found)

    @cached_property
    def correct_radius(self) -> float:
        """The radius that is proved for the right class, not rounded; 0 otherwise."""
        return proved_radius(self.certificate) if self.right else 0.0

    def right_within(self, radius: float) -> bool:
        """Whether it is certified for the right class, at this radius or a larger one."""
        return self.right and self.correct_radius >= radius


@dataclass(frozen=True)
class StageShares:
    """Shares of all images, in percent, that were certified (ASC) or abandoned (ASA) in one stage."""

    certified: float
    abandoned: float

    @property
    def returned(self) -> float:
        """ASR: the share that was decided in this stage, certified or abandoned."""
        return self.certified + self.abandoned


def proved_radius(certificate: Certificate) -> float:
    """The radius that a certificate proves, not rounded; 0 for an abstention."""
    if certificate.decision == "abstain":
        return 0.0
    if not certificate.procedure.exceeds_target:
        return certificate.procedure.unrounded(certificate.radius, certificate.target_radius)
    return 0.0 if certificate.p_lower is None else certificate.noise.radius(certificate.p_lower)


def share_on_class(each: Judged) -> float | None:
    """The share of the samples of the last look that fell on the chosen class; None where there was no look."""
    stages = each.certificate.stages
    return stages[-1].count / stages[-1].n if stages and stages[-1].n else None


def average_certified_radius(judged: Sequence[Judged]) -> float:
    """ACR: the mean over all images of the radius certified for the right class."""
    return fsum(each.correct_radius for each in judged) / _some(judged)


def certified_accuracy(judged: Sequence[Judged], radius: float) -> float:
    """The percentage of all images that are right and certified at this radius."""
    return 100 * sum(each.right_within(radius) for each in judged) / _some(judged)


def population_accuracy(judged: Sequence[Judged], radius: float) -> Estimate:
    """The same, with an exact 95 % interval for the population from which the images were drawn independently."""
    _some(judged)
    return share([each.right_within(radius) for each in judged])


def stage_shares(judged: Sequence[Judged]) -> list[StageShares]:
    """ASC_j and ASA_j for each stage j; an image that went through all stages undecided is abandoned in the last."""
    last = max((len(each.certificate.stages) for each in judged), default=0)
    ended = [(len(each.certificate.stages), each.certificate.decision == "certified") for each in judged]
    return [
        StageShares(
            certified=100 * ended.count((j, True)) / len(judged),
            abandoned=100 * ended.count((j, False)) / len(judged),
        )
        for j in range(1, last + 1)
    ]


def sample_reduction(judged: Sequence[Judged], *, n0: int = 100, n: int = 100_000) -> float:
    """SampleRF: the samples that Certify would have drawn, divided by those that were drawn."""
    return (n0 + n) * _some(judged) / sum(each.certificate.samples for each in judged)


ENDS_EARLY = frozenset({"hard", "softmax"})
"""The voting rules under which members are left out once they cannot change the class."""


def consensus_rate(judged: Sequence[Judged]) -> float | None:
    """KCR: the percentage of noise samples for which only K members were evaluated, those of the selection included.

    None where the ensemble ran without consensus, and where a vote may end early: then the evaluations do not tell how
    many samples had a consensus.
    """
    samples = saved = 0
    for each in judged:
        provenance, evaluations = each.certificate.provenance, each.certificate.evaluations
        if provenance is None or evaluations is None or provenance.ensemble.consensus is None:
            return None
        k, leading = len(provenance.ensemble.members), provenance.ensemble.consensus
        if leading == k or provenance.ensemble.voting in ENDS_EARLY:
            return None
        samples += each.certificate.samples
        saved += (k * each.certificate.samples - evaluations) // (k - leading)
    return 100 * saved / samples if samples else None


def disagreements(one: Sequence[Judged], other: Sequence[Judged], radius: float) -> int:
    """The images that one set of certificates certifies at this radius and the other does not."""
    if [each.certificate.index for each in one] != [each.certificate.index for each in other]:
        raise DomainError("the two sets of certificates are not about the same images")
    return sum(_certifies(a, radius) != _certifies(b, radius) for a, b in zip(one, other, strict=True))


def _certifies(each: Judged, radius: float) -> bool:
    return each.certificate.decision == "certified" and proved_radius(each.certificate) >= radius


def _some(judged: Sequence[Judged]) -> int:
    if not judged:
        raise DomainError("nothing to average: no certificates")
    return len(judged)
