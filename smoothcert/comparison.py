"""Two sets of certificates of the same images: is the new one worse than the old one, and by how much?

Images are paired: one that both sets certify, or neither, says nothing about the difference. At each radius there
is an exact test (McNemar) and an exact interval (`paired`) for the difference in certified accuracy over the population
from which the images were drawn. The intervals of all radii hold together: their levels are shares of one (Bonferroni).

A run that was asked about certain radii says nothing about others: an image that it does not certify may be robust
within a smaller radius. So the sets are compared at radii that both were asked about.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from smoothcert.certificate import Certificate
from smoothcert.chapter import Chapter, ChapterTable
from smoothcert.collection import Collection, about
from smoothcert.errors import CertificateError, DomainError, require_level, require_number, shown
from smoothcert.estimate import LEVEL, Bootstrap, Estimate
from smoothcert.evaluation import Judged, certified_accuracy
from smoothcert.figures import confidence_text, counted, radius_text
from smoothcert.norms import measure
from smoothcert.paired import difference_interval, mcnemar
from smoothcert.report import Report
from smoothcert.tables import literal
from smoothcert.webpage import webpage

SAME = ("noise", "alpha")
"""What both sets must have been asked alike: otherwise their radii mean different things."""
COLUMNS = ("radius", "old, %", "new, %", "gained", "lost", "difference, points", "p-value")


@dataclass(frozen=True)
class Difference:
    """What changed at one radius."""

    radius: float
    old: float
    """The certified accuracy of the old set, in percent."""
    new: float
    gained: int
    """The images that only the new set certifies at the radius, for the right class."""
    lost: int
    points: Estimate
    """New minus old in percentage points, with an interval for the population."""
    p_value: float
    """Of the exact test that as many images of the population are gained as lost."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """The same images under two sets of certificates, judged by the same labels."""

    old: Report
    new: Report
    chosen: Sequence[float] = ()
    """The radii to compare at; those of the old report's curve where there are none, for sets that answer about all."""
    level: float = LEVEL
    """One minus the confidence with which all intervals hold together."""

    @cached_property
    def differences(self) -> list[Difference]:
        radii = self.chosen or self.old.radii
        return [self._at(radius, self.level / len(radii)) for radius in radii]

    def _at(self, radius: float, level: float) -> Difference:
        before = [each.right_within(radius) for each in self.old.judged]
        after = [each.right_within(radius) for each in self.new.judged]
        n, gained, lost = len(before), 0, 0
        for was, now in zip(before, after, strict=True):
            gained, lost = gained + (now and not was), lost + (was and not now)
        low, high = difference_interval(gained, lost, n, level=level)
        points = Estimate(100 * (gained - lost) / n, 100 * low, 100 * high)
        old, new = certified_accuracy(self.old.judged, radius), certified_accuracy(self.new.judged, radius)
        return Difference(radius, old, new, gained, lost, points, mcnemar(gained, lost))

    @cached_property
    def acr(self) -> Estimate | None:
        """The difference in ACR, with its paired bootstrap interval; None where other radii were asked for."""
        if _asked(self.old.first) != _asked(self.new.first):
            return None
        pairs = zip(self.old.judged, self.new.judged, strict=True)
        return Bootstrap(len(self.old.judged)).mean([new.correct_radius - old.correct_radius for old, new in pairs])

    @property
    def reclassified(self) -> int:
        """The images that both sets certify, for different classes."""
        pairs = zip(self.old.judged, self.new.judged, strict=True)
        classes = [(old.certificate.class_index, new.certificate.class_index) for old, new in pairs]
        return sum(None not in pair and pair[0] != pair[1] for pair in classes)

    def worse(self, margin: float) -> list[Difference]:
        """The radii at which the new set is worse by more than `margin` points, with confidence."""
        return [each for each in self.differences if each.points.high < -margin]

    @property
    def title(self) -> str:
        return f"{self.new.name} against {self.old.name}"

    def verdict(self, margin: float) -> str:
        """The result in a sentence."""
        confidence = f"with {confidence_text(self.level)} % confidence"
        if found := self.worse(margin):
            worst = min(found, key=lambda each: each.points.high)
            return (
                f"{self.new.name} is worse than {self.old.name} by more than {margin:g} points at "
                f"{len(found)} of {len(self.differences)} radii, {confidence}: at radius "
                f"{radius_text(worst.radius)} the difference is {worst.points}."
            )
        beyond = f"by more than {margin:g} points, {confidence}"
        return f"{self.new.name} is not shown to be worse than {self.old.name} {beyond}."

    @property
    def rows(self) -> Iterator[tuple[Any, ...]]:
        for each in self.differences:
            yield (
                radius_text(each.radius),
                round(each.old, 2),
                round(each.new, 2),
                each.gained,
                each.lost,
                each.points,
                each.p_value,
            )

    def chapters(self) -> list[Chapter]:
        sentences = [
            f"{counted(len(self.old.judged), 'image')}. Radii are {measure(self.old.first.noise)}. "
            f"Gained are images that only {self.new.name} certifies{self._right}, lost those that only {self.old.name} "
            "does.",
            f"The intervals are exact, and hold together with {confidence_text(self.level)} % confidence for the "
            "population from which the images were drawn independently. The p-value is that of McNemar's exact test, "
            "at each radius on its own.",
            f"{self._about_acr} Images that both certify, for different classes: {self.reclassified:,}.",
        ]
        differences = ChapterTable("differences", "What changed at each radius.", COLUMNS, [*self.rows])
        changed = ChapterTable(
            "images", "Every image that was gained or lost.", ("image", "old", "new"), [*self._changed()]
        )
        tables = [differences, changed] if changed.rows else [differences]
        questions = [f"{report.name}: {report.question}." for report in (self.old, self.new)]
        return [
            Chapter("compared", "What was compared", questions),
            Chapter("found", "What was found", sentences, tables),
        ]

    @property
    def _about_acr(self) -> str:
        if self.acr is None:
            return "The ACR is not compared, since the sets were asked about different radii."
        return f"The ACR differs by {self.acr}, by the paired bootstrap over images."

    @property
    def _right(self) -> str:
        return " for the right class" if self.old.labelled else ""

    def _changed(self) -> Iterator[tuple[str, str, str]]:
        """The images whose radius lies on the two sides of some radius of the comparison."""
        radii = [each.radius for each in self.differences]
        for name, old, new in zip(self.old.images, self.old.judged, self.new.judged, strict=True):
            if any(old.right_within(radius) != new.right_within(radius) for radius in radii):
                yield name, _claim(old), _claim(new)

    def markdown(self, margin: float) -> str:
        head = [f"# {literal(self.title)}", "", literal(self.verdict(margin)), ""]
        return "\n".join([*head, *(chapter.markdown() for chapter in self.chapters())])

    def html(self, margin: float) -> str:
        return webpage(self.title, self.verdict(margin), self.chapters())

    def as_json(self, margin: float) -> dict[str, Any]:
        differences = [{**vars(each), "points": each.points.as_json()} for each in self.differences]
        return {
            "old": self.old.name,
            "new": self.new.name,
            "images": len(self.old.judged),
            "confidence": 1 - self.level,
            "margin": margin,
            "worse": [each.radius for each in self.worse(margin)],
            "ACR": self.acr and self.acr.as_json(),
            "differences": differences,
        }


def compare(old: Collection, new: Collection, *, radii: Sequence[float] = (), level: float = LEVEL) -> Comparison:
    """Pair the certificates of the same images; CertificateError says why two sets cannot be compared."""
    require_level("the level", level)
    for name, found in (("OLD", old), ("NEW", new)):
        if found.problems:
            file, problem = found.problems[0]
            raise CertificateError(f"{name} is wrong, and a comparison would be, too: {file}: {problem}")
    questions = [about(found.found[0].certificate) for found in (old, new)]
    for part in SAME:
        if questions[0][part] != questions[1][part]:
            raise CertificateError(
                f"{part} is {questions[0][part]} in OLD and {questions[1][part]} in NEW: they must be the same"
            )
    pairs = _paired(old, new)
    _require_same_classes(old, new)
    noise = old.found[0].certificate.noise
    for radius in radii:
        require_number("a radius", radius)
        if not 0 <= radius < math.inf or (noise.whole and radius != int(radius)):
            raise DomainError(
                f"a radius must be {'a whole number' if noise.whole else 'a number'} from 0 on, got {radius!r}"
            )
    names, judged = old.names, [*zip(*pairs, strict=True)]
    before, after = _distinct(old.name, new.name)
    reports = Report(before, names, judged[0]), Report(after, names, judged[1])
    return Comparison(*reports, _chosen(radii, *(_asked(each.first) for each in reports)), level)


def _asked(certificate: Certificate) -> tuple[float, ...]:
    """The radii that a run was asked about; none for one that proves the largest it can, and so answers about all."""
    return certificate.procedure.targets(certificate.target_radius)


def _chosen(radii: Sequence[float], old: Sequence[float], new: Sequence[float]) -> tuple[float, ...]:
    """The radii to compare at, which both sets were asked about; none if no radius was named and both answer about
    all."""
    for name, own in (("OLD", old), ("NEW", new)):
        if own and (others := sorted(set(radii) - set(own))):
            raise CertificateError(f"{name} was not asked about radius {others[0]:g}, but about {_listed(own)}")
    if radii or not (old and new):
        return tuple(sorted(set(radii or old or new)))
    if not (common := set(old) & set(new)):
        raise CertificateError(
            f"OLD was asked about {_listed(old)} and NEW about {_listed(new)}: they have no radius in common"
        )
    return tuple(sorted(common))


def _listed(radii: Sequence[float]) -> str:
    return " ".join(f"{radius:g}" for radius in radii)


def _distinct(old: str, new: str) -> tuple[str, str]:
    return (old, new) if old != new else (f"{old} (old)", f"{new} (new)")


def _paired(old: Collection, new: Collection) -> list[tuple[Judged, Judged]]:
    """The old certificates in their order, each with the new one of the same pixels."""
    waiting = _by_pixels(new, "NEW")
    pairs = []
    for (pixels, was), name in zip(_pixels(old, "OLD"), old.names, strict=True):
        if not waiting[pixels]:
            raise CertificateError(f"image {name} of OLD is not among those of NEW: both must have the same images")
        now = waiting[pixels].pop(0)
        if None not in (was.label, now.label) and was.label != now.label:
            raise CertificateError(f"image {name} has the label {was.label} in OLD and {now.label} in NEW")
        label = now.label if was.label is None else was.label
        pairs.append((Judged(was.certificate, label), Judged(now.certificate, label)))
    if left := sum(map(len, waiting.values())):
        raise CertificateError(f"{counted(left, 'image')} of NEW are not in OLD: both must have the same images")
    return pairs


def _by_pixels(found: Collection, name: str) -> Mapping[str, list[Judged]]:
    waiting: dict[str, list[Judged]] = defaultdict(list)
    for pixels, judged in _pixels(found, name):
        waiting[pixels].append(judged)
    return waiting


def _pixels(found: Collection, name: str) -> Iterator[tuple[str, Judged]]:
    for judged in found.judged:
        if judged.certificate.provenance is None:
            raise CertificateError(f"a certificate of {name} does not say of which image it is: it has no provenance")
        yield judged.certificate.provenance.input.sha256, judged


def _require_same_classes(old: Collection, new: Collection) -> None:
    """Refuse sets in which one number stands for two classes: their classes would be in another order."""
    before, after = _class_names(old), _class_names(new)
    for number in sorted(before.keys() & after.keys()):
        if before[number] != after[number]:
            seen = f"class {number} is {shown(before[number])} in OLD and {shown(after[number])} in NEW"
            raise CertificateError(f"{seen}: both must have the same classes in the same order")


def _class_names(found: Collection) -> dict[int, str]:
    named = ((each.certificate.class_index, each.certificate.class_name) for each in found.found)
    return {number: name for number, name in named if number is not None and name is not None}


def _claim(each: Judged) -> str:
    certificate = each.certificate
    if certificate.decision == "abstain":
        return "abstained"
    return f"{certificate.class_name or certificate.class_index} within {radius_text(certificate.radius)}"
