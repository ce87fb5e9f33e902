"""Verification: does everything in a certificate follow from the counts that it carries?

`verify` runs the procedure again on those counts and compares every field that follows from them. Together with the
digest over the canonical JSON this detects alteration; it cannot tell who drew the counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from smoothcert.certificate import (
    BOUND,
    FORMATS,
    Certificate,
    EnsembleRecord,
    PartRecord,
    Provenance,
    SamplingRecord,
    StageRecord,
    derived,
)
from smoothcert.counts import MOST_CLASSES, SampleCounts
from smoothcert.errors import CountsError, DomainError
from smoothcert.verdict import Verdict, floor_radius

TOLERANCE = 1e-9
"""How far the bounds of two machines' libraries may be apart."""


@dataclass(frozen=True)
class Mismatch:
    """A field that does not follow from the counts."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


@dataclass(frozen=True)
class Verification:
    """What `verify` found; true where nothing is wrong."""

    problems: tuple[Mismatch, ...]

    @property
    def consistent(self) -> bool:
        """Whether everything that can be recomputed agrees."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.consistent


def verify(certificate: Certificate) -> Verification:
    """Recompute the digest and everything that follows from the counts; say which fields are wrong."""
    return Verification(tuple(_mismatches(certificate)))


def _mismatches(certificate: Certificate) -> Iterator[Mismatch]:
    if certificate.digest != (expected := certificate.expected_digest()):
        yield Mismatch("digest", f"is {certificate.digest!r}, the fields have {expected!r}")
    shared = certificate.family_wise
    if (certificate.alpha is None) != certificate.procedure.exhaustive:
        wanted = "none" if certificate.procedure.exhaustive else "one"
        yield Mismatch("alpha", f"is {certificate.alpha!r}, the {certificate.procedure.name} procedure has {wanted}")
        return
    if shared and certificate.index >= shared.images:
        yield Mismatch("index", f"is {certificate.index}, and alpha is shared by {shared.images} images")
    if shared and certificate.alpha is not None and not _close(certificate.alpha, shared.alpha / shared.images):
        message = f"is {certificate.alpha!r}, the family-wise share is {shared.alpha / shared.images!r}"
        yield Mismatch("alpha", message)
    if not certificate.procedure.targeted and certificate.target_radius is not None:
        message = f"is {certificate.target_radius!r}, a {certificate.procedure.name} procedure has none"
        yield Mismatch("target_radius", message)
    yield from (Mismatch("procedure.basis", message) for message in certificate.procedure.objections(certificate))
    if certificate.class_index is not None:
        name = certificate.procedure.class_name(certificate.class_index)
        if name is not None and certificate.class_name != name:
            yield Mismatch("class_name", f"is {certificate.class_name!r}, the procedure names it {name!r}")
    yield from _provenance_mismatches(certificate)
    if misplaced := [*_misplaced(certificate)]:
        yield from misplaced
        return
    labels = _labels(certificate)
    try:
        verdict = _replay(certificate, labels)
    except _ContradictionError as found:
        yield found.mismatch
        return
    except DomainError as error:
        yield Mismatch("procedure", str(error))
        return
    counted = None if certificate.format == FORMATS[0] else labels
    for name, value in derived(verdict, certificate.procedure, certificate.format, counted).items():
        if name == "stages":
            yield from _compare_stages(certificate.stages, value)
        elif name == "radius" and not _floors_to(certificate.radius, verdict.radius):
            yield Mismatch(name, f"is {certificate.radius!r}, the counts give {value!r}")
        elif name != "radius" and not _agree(getattr(certificate, name), value):
            yield Mismatch(name, f"is {getattr(certificate, name)!r}, the counts give {value!r}")


def _provenance_mismatches(certificate: Certificate) -> Iterator[Mismatch]:
    if certificate.provenance is None:
        return
    ensemble, shapes = certificate.provenance.ensemble, certificate.provenance.sampling.shapes
    k, samples, evaluations = len(ensemble.members), certificate.samples, certificate.evaluations
    fewest = _fewest_members(ensemble)
    if ensemble.consensus is not None and ensemble.consensus > k:
        yield Mismatch("provenance.ensemble.consensus", f"is {ensemble.consensus}, the ensemble has {k} members")
    elif evaluations is None or not fewest * samples <= evaluations <= k * samples:
        bounds = f"{fewest * samples} to {k * samples}"
        yield Mismatch("evaluations", f"is {evaluations!r}, {samples} samples of {k} members take {bounds}")
    places = [each.member for each in ensemble.remote or ()]
    if ensemble.remote is not None and not (places and places == sorted(set(places)) and places[-1] < k):
        yield Mismatch("provenance.ensemble.remote", f"names the members {places} of {k}, in order and each once")
    resized = certificate.provenance.input.resized
    if resized is not None and (objection := resized.objection(certificate.provenance.input.shape)):
        yield Mismatch("provenance.input.resized", objection)
    yield from _noise_mismatches(certificate, certificate.provenance)
    if not _cover([(shape.start, shape.stop) for shape in shapes], samples):
        yield Mismatch("provenance.sampling.shapes", f"do not cover the samples 0 to {samples} without gap or overlap")
    if certificate.provenance.sampling.parts is not None:
        yield from _part_mismatches(certificate, certificate.provenance.sampling)


def _fewest_members(ensemble: EnsembleRecord) -> int:
    """The members that see every sample: a vote may end once those to come weigh less, or the first K agree.

    Weights are not in a certificate; one member may outweigh all others.
    """
    k = len(ensemble.members)
    majority = 1 if ensemble.voting == "weighted" else k // 2 + 1
    return min(majority, k if ensemble.consensus is None else ensemble.consensus)


def _part_mismatches(certificate: Certificate, sampling: SamplingRecord) -> Iterator[Mismatch]:
    """Parts may only say what an interrupted run does: otherwise their streams could be chosen."""
    field, parts, samples = "provenance.sampling.parts", sampling.parts or (), certificate.samples
    if not _cover([(part.start, part.stop) for part in parts], samples) or any(p.start == p.stop for p in parts):
        yield Mismatch(field, f"do not cover the samples 0 to {samples} without gap or overlap")
    if any(_machine(one) == _machine(other) for one, other in pairwise(parts)):
        yield Mismatch(field, "name the same kind of machine twice in a row")
    streams = [part.stream for part in parts]
    expected = [0] * len(parts) if certificate.noise.portable else [*range(len(parts))]
    if streams != expected:
        yield Mismatch(field, f"have the streams {streams}, with {certificate.noise.name} noise they are {expected}")
    if parts and (parts[-1].device, parts[-1].precision) != (sampling.device, sampling.precision):
        yield Mismatch(field, "end with another device or precision than the certificate states")


def _machine(part: PartRecord) -> tuple[str, str, dict[str, str]]:
    return part.device, part.precision, part.versions


def _cover(ranges: list[tuple[int, int]], samples: int) -> bool:
    """Whether ranges of samples, in their order, cover 0 to `samples` without gap or overlap."""
    starts, stops = [0, *(stop for _, stop in ranges)], [*(start for start, _ in ranges), samples]
    return starts == stops


def _noise_mismatches(certificate: Certificate, provenance: Provenance) -> Iterator[Mismatch]:
    noise, sampling = certificate.noise, provenance.sampling
    first = certificate.format == FORMATS[0]
    scheme = noise.scheme if first else BOUND + noise.scheme
    if sampling.scheme != scheme:
        message = f"is {sampling.scheme!r}, {noise.name} noise is drawn by {scheme!r} in {certificate.format}"
        yield Mismatch("provenance.sampling.scheme", message)
    if not first and sampling.image != certificate.index:
        message = f"is {sampling.image}, and the index of the image is {certificate.index}"
        yield Mismatch("provenance.sampling.image", message)
    if first and not (sampling.nonce is None and sampling.parts is None):
        yield Mismatch("format", f"is {certificate.format}, which has no nonce and no parts")
    try:
        noise.require_images(provenance.input.shape)
    except DomainError as error:
        yield Mismatch("noise", str(error))


class _ContradictionError(Exception):
    def __init__(self, field: str, message: str) -> None:
        self.mismatch = Mismatch(field, message)


def _recorded(certificate: Certificate) -> list[tuple[str, SampleCounts]]:
    stages = [(f"stages[{i}].counts", stage.counts) for i, stage in enumerate(certificate.stages)]
    return [("selection", certificate.selection), *stages]


def _misplaced(certificate: Certificate) -> Iterator[Mismatch]:
    """Counts in the form of another format, or of another number of classes than the first."""
    listed, recorded = certificate.format == FORMATS[0], _recorded(certificate)
    for field, counts in recorded:
        if listed != (counts.classes is not None):
            yield Mismatch(field, f"must be {'a list' if listed else 'an object'} in {certificate.format}")
    drawn = recorded if certificate.procedure.n0 else recorded[1:]
    if not certificate.procedure.n0 and certificate.selection.classes:
        yield Mismatch("selection", "must be empty, the procedure chooses the class without samples of its own")
    for field, counts in recorded if certificate.procedure.numbered else ():
        if max(counts, default=0) >= MOST_CLASSES:
            yield Mismatch(field, f"names the class {max(counts)}, and there are at most {MOST_CLASSES} classes")
    for field, counts in drawn[1:]:
        if counts.classes != drawn[0][1].classes:
            yield Mismatch(field, f"counts {counts.classes} classes, {drawn[0][0]} counts {drawn[0][1].classes}")


def _labels(certificate: Certificate) -> list[int]:
    """The classes that the procedure is told of, in increasing order.

    All others have no samples of their own, and a procedure cannot tell how many there are. The first class is always
    among them: of equals the lowest wins, so `exact` asks whether a class comes before the one that leads.
    """
    counts = [each for _, each in _recorded(certificate)]
    if certificate.format == FORMATS[0]:
        return [*range(max(each.classes or 0 for each in counts))]
    if certificate.procedure.numbered:
        return [*range(1 + max({0}.union(*counts)))]
    return sorted({0}.union(*counts))


def _replay(certificate: Certificate, labels: list[int]) -> Verdict:
    """Run the procedure on the recorded counts of these classes."""
    procedure = certificate.question.start()
    first = 0 if certificate.procedure.n0 else 1  # a procedure may choose the class without samples of its own
    recorded = _recorded(certificate)
    wanted = next(procedure)
    for i, (field, counts) in enumerate(recorded[first:], first):
        try:
            wanted = procedure.send(counts.array(labels))
        except CountsError as error:
            raise _ContradictionError(field, str(error)) from error
        except StopIteration as end:
            if i + 1 < len(recorded):
                raise _ContradictionError("stages", f"has {len(recorded) - 1}, the procedure ends after {i}") from end
            verdict: Verdict = end.value
            return verdict
    raise _ContradictionError(
        "stages", f"has {len(recorded) - 1}, the procedure goes on and asks for {wanted} more samples"
    )


def _compare_stages(stored: tuple[StageRecord, ...], recomputed: tuple[StageRecord, ...]) -> Iterator[Mismatch]:
    for i, (mine, theirs) in enumerate(zip(stored, recomputed, strict=True)):
        for name in StageRecord.model_fields:
            seen, expected = getattr(mine, name), getattr(theirs, name)
            if not _agree(seen, expected):
                yield Mismatch(f"stages[{i}].{name}", f"is {seen!r}, the counts give {expected!r}")


def _agree(seen: object, expected: object) -> bool:
    if isinstance(seen, float) and isinstance(expected, float):
        return math.isclose(seen, expected, rel_tol=0.0, abs_tol=TOLERANCE)
    return seen == expected


def _floors_to(floored: float, radius: float) -> bool:
    """Whether this is the radius to six decimals; where another library's last digit decides, both will do."""
    return floor_radius(max(0.0, radius - TOLERANCE)) <= floored <= floor_radius(radius + TOLERANCE)


def _close(seen: float, expected: float) -> bool:
    return math.isclose(seen, expected, rel_tol=TOLERANCE)
