"""Images on which two procedures decide differently about one radius, and whether chance explains it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from benchmarks.paper.setting import Evaluated
from smoothcert.certificate import Certificate
from smoothcert.counts import SampleCounts
from smoothcert.evaluation import disagreements


@dataclass(frozen=True)
class Disagreement:
    """The images on which two settings disagree about a radius: their places, and the best estimate of p_A for each."""

    one: Evaluated
    other: Evaluated
    radius: float
    p_a: dict[int, float]

    @cached_property
    def between(self) -> int:
        """The number of these images whose p_A lies between the boundaries of the two."""
        return sum(self.may_differ(p) for p in self.p_a.values())

    def may_differ(self, p: float) -> bool:
        """Whether p lies between the boundaries of the two, so that chance can make them disagree.

        It does unless both certify with a probability of at least 1 - beta, or both with one of at most alpha. The
        probabilities follow exactly from the boundaries.
        """
        chances = [self._chance(each, p) for each in (self.one, self.other)]
        question = self.one.setting.question
        return max(chances) > question.alpha and min(chances) < 1 - question.beta

    def _chance(self, each: Evaluated, p: float) -> float:
        question = each.setting.question
        boundaries = question.procedure.boundaries(
            question.noise, self.radius, alpha=question.alpha, beta=question.beta
        )
        return boundaries.outcome(p).certify


def all_disagreements(evaluated: Sequence[Evaluated]) -> Iterator[Disagreement]:
    """One for each pair of settings that decide the same radius for the same base classifier, even if they agree.

    Certify decides every radius. A curve or the largest radius decides no single one by boundaries of its own.
    """
    deciding = [each for each in evaluated if each.fixed or each.setting.question.radius is not None]
    for one, other in itertools.combinations(deciding, 2):
        radii = {each.setting.question.radius for each in (one, other)} - {None}
        if one.setting.classifier == other.setting.classifier and len(radii) == 1:
            alike = [each for each in evaluated if each.setting.classifier == one.setting.classifier]
            yield disagreement(one, other, float(radii.pop() or 0), alike)


def disagreement(one: Evaluated, other: Evaluated, radius: float, alike: Sequence[Evaluated]) -> Disagreement:
    """Compare two settings. The samples of `alike`, all settings with their base classifier, estimate p_A."""
    pairs = zip(one.judged, other.judged, strict=True)
    places = [place for place, (a, b) in enumerate(pairs) if disagreements([a], [b], radius)]
    estimates = {place: estimate([each.judged[place].certificate for each in alike]) for place in places}
    return Disagreement(one, other, radius, estimates)


def estimate(certificates: Sequence[Certificate]) -> float:
    """The share of the most frequent class in all samples of these certificates, which are about one image."""
    drawn = sum((each.counts for each in longest(certificates)), start=SampleCounts())
    return max(drawn.values(), default=0) / drawn.total


def longest(certificates: Sequence[Certificate]) -> list[Certificate]:
    """The certificate with most samples for each stream of noise: it contains the samples of the others."""
    by_noise: dict[object, Certificate] = {}
    for place, each in enumerate(certificates):
        sampling = each.provenance and each.provenance.sampling
        noise = (sampling.seed, sampling.image) if sampling else place
        by_noise[noise] = max(by_noise.get(noise, each), each, key=lambda one: one.samples)
    return list(by_noise.values())


def as_notes(found: Sequence[Disagreement]) -> list[str]:
    """One note that counts them for each radius and base classifier, or no note if nothing was compared."""
    alike: dict[str, list[str]] = {}
    for each in found:
        pair = f"{each.one.setting.name} and {each.other.setting.name} {len(each.p_a)} ({each.between})"
        alike.setdefault(f"{each.one.setting.voters}, r = {each.radius:g}", []).append(pair)
    counted = " ".join(f"{where}: {', '.join(pairs)}." for where, pairs in alike.items())
    heading = (
        "Images on which two procedures disagree, and in brackets those of them where p_A, by the best estimate, lies "
    )
    return [f"{heading}between the boundaries of the two. {counted}"] if found else []
