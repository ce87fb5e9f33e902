"""A certificate: a verdict with all that is needed to check it.

`verify` runs the procedure again on the counts that the certificate carries and compares everything that follows from
them. Together with the digest over its canonical JSON this detects alteration; it cannot tell who drew the counts.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from smoothcert import notebook
from smoothcert.canonical import digest
from smoothcert.errors import MOST, CertificateError, CountsError, DomainError, explain, shown
from smoothcert.noise import AnyNoise
from smoothcert.procedures import AnyProcedure
from smoothcert.procedures.parameters import WholeNumber
from smoothcert.verdict import StageOutcome, StopReason, Verdict, floor_radius

TOLERANCE = 1e-9  # between the bounds of two machines' libraries

Count = Annotated[int, Field(strict=True, ge=0, le=MOST)]
Real = Annotated[float, Field(allow_inf_nan=False)]


class Record(BaseModel):
    """Certificates are read-only, and nothing unknown hides in them."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class FamilyWise(Record):
    """alpha shared among the images of one request (Bonferroni): alpha of the certificate = alpha / images here."""

    alpha: Annotated[Real, Field(gt=0, lt=1)]
    images: WholeNumber


class StageRecord(Record):
    """One look at the counts and what came of it: a `Stage` of the verdict."""

    counts: tuple[Count, ...]
    """Class counts of the samples drawn for this stage; the last entry is for no class."""
    n: Count
    """The samples that the decision rests on: more than were drawn where a procedure keeps earlier ones."""
    count: Count
    """How many of those n fell on the chosen class."""
    outcome: StageOutcome
    p_lower: Real | None = None
    """The lower bound on p_A, where the stage has one."""
    p_upper: Real | None = None
    """The upper bound on p_A, where the stage has one."""
    certify_at: Annotated[int, Field(strict=True)] | None = None
    """The procedure certifies at this count or more, where it has integer boundaries."""
    abandon_at: Annotated[int, Field(strict=True)] | None = None
    """The procedure abandons at this count or less; -1 for never."""


class EnsembleRecord(Record):
    """The base classifier, exactly: these members in this order, voting by this rule."""

    name: str
    digest: str
    members: tuple[str, ...]
    """sha256 of each member, best first."""
    voting: str
    consensus: WholeNumber | None


class ShapeRecord(Record):
    """The samples start, ..., stop - 1 went through the first members in slices of `rows`.

    And those of them without consensus through the others in slices of `rest_rows`, null where there were none.
    """

    start: Count
    stop: Count
    rows: WholeNumber
    rest_rows: WholeNumber | None = None


class SamplingRecord(Record):
    """All that the noise follows from, and the arithmetic that the classes were computed in."""

    seed: str
    image: Count
    """The stream of the seed that the image was given: its place in the request."""
    scheme: str
    device: str
    precision: str
    shapes: tuple[ShapeRecord, ...]


class InputRecord(Record):
    """The image as it was certified: sha256 of its float32 pixels in [0, 1], little-endian, in the order C, H, W."""

    sha256: str
    shape: tuple[Count, ...]


class Provenance(Record):
    """How the counts came about."""

    ensemble: EnsembleRecord
    input: InputRecord
    sampling: SamplingRecord
    versions: dict[str, str]
    started_at: datetime
    finished_at: datetime


class Certificate(Record):
    """With confidence 1 - alpha: the smoothed classifier answers `class_index` everywhere within `radius`.

    Or an abstention, which claims nothing.
    """

    format: Literal["smoothcert/certificate/1"] = "smoothcert/certificate/1"
    index: Count = 0
    """The place of the image in its request."""
    decision: Literal["certified", "abstain"]
    class_index: Count | None
    class_name: str | None = None
    radius: Annotated[Real, Field(ge=0)]
    """Floored to six decimals."""
    target_radius: Annotated[Real, Field(ge=0)] | None
    p_lower: Real | None
    alpha: Annotated[Real, Field(gt=0, lt=1)]
    beta: Annotated[Real, Field(gt=0, lt=1)]
    family_wise: FamilyWise | None = None
    noise: AnyNoise
    procedure: AnyProcedure
    samples: Count
    """Noise samples, those of the selection included."""
    evaluations: Count | None = None
    """Forward passes of members: K for a sample with consensus, k for one without."""
    stop_reason: StopReason
    selection: tuple[Count, ...]
    """Class counts of the samples that chose the class; the last entry is for no class."""
    stages: tuple[StageRecord, ...]
    provenance: Provenance | None = None
    digest: str = ""
    """sha256 of the canonical JSON of all other fields."""
    _picture: notebook.Picture = PrivateAttr(notebook.Picture())
    """No part of what is certified: neither in the JSON nor in the digest."""

    @classmethod
    def of(cls, verdict: Verdict, **said: Any) -> Certificate:
        """The certificate of a verdict; `said` are the fields that the verdict does not determine."""
        unsigned = cls(**derived(verdict), **said)
        return unsigned.model_copy(update={"digest": unsigned.expected_digest()})

    def expected_digest(self) -> str:
        """The digest of the fields as they are now."""
        return digest(self.model_dump(mode="json", exclude={"digest"}))

    def to_json(self) -> str:
        """The whole certificate as JSON text."""
        return self.model_dump_json(indent=2)

    def _repr_html_(self) -> str:
        return notebook.html(self, self._picture.file)

    def beside(self, image: bytes | None) -> Certificate:
        """The same certificate, which a notebook shows with its image: a PNG, JPEG or WebP file."""
        shown = self.model_copy()
        shown._picture = notebook.Picture(image)
        return shown

    @classmethod
    def from_json(cls, text: str | bytes) -> Certificate:
        """Read a certificate; CertificateError says what is wrong with the text.

        The text must say exactly what the certificate says: a field left out, a key twice or a number in quotes may
        be read in another way elsewhere, and then the digest would vouch for what nobody sees.
        """
        try:
            certificate = cls.model_validate_json(text)
            said = json.loads(text, object_pairs_hook=without_repetition)
        except ValidationError as error:
            raise CertificateError(f"not a certificate: {explain(error)}") from error
        except (ValueError, RecursionError) as error:
            raise CertificateError(f"not a certificate: {error}") from error
        if odd := sorted(_differences(said, certificate.model_dump(mode="json"))):
            raise CertificateError(f"not written as certificates are: {', '.join(odd)}")
        return certificate


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `json.loads`: ValueError where a key comes twice."""
    said = dict(pairs)
    if len(said) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {shown(twice)} comes twice")
    return said


def _differences(said: Any, meant: Any, place: str = "") -> Iterator[str]:
    """The places where a text says something else than was understood."""
    if isinstance(said, dict) and isinstance(meant, dict):
        for key in said.keys() | meant.keys():
            yield from _differences(said.get(key, ...), meant.get(key, ...), f"{place}.{key}".lstrip("."))
    elif isinstance(said, list) and isinstance(meant, list) and len(said) == len(meant):
        for i, (one, other) in enumerate(zip(said, meant, strict=True)):
            yield from _differences(one, other, f"{place}[{i}]")
    elif isinstance(said, bool) != isinstance(meant, bool) or said != meant:
        yield place


def derived(verdict: Verdict) -> dict[str, Any]:
    """The fields of a certificate that follow from its verdict."""
    return {
        "decision": "abstain" if verdict.top_class is None else "certified",
        "class_index": verdict.top_class,
        "radius": floor_radius(verdict.radius),
        "p_lower": verdict.p_lower,
        "samples": verdict.samples,
        "stop_reason": verdict.stop_reason,
        "selection": verdict.selection,
        "stages": tuple(StageRecord(**vars(stage)) for stage in verdict.stages),
    }


@dataclass(frozen=True)
class Problem:
    """A field that does not follow from the counts."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


@dataclass(frozen=True)
class Verification:
    """What `verify` found; true where nothing is wrong."""

    problems: tuple[Problem, ...]

    @property
    def consistent(self) -> bool:
        """Whether everything that can be recomputed agrees."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.consistent


def verify(certificate: Certificate) -> Verification:
    """Recompute the digest and everything that follows from the counts; say which fields are wrong."""
    return Verification(tuple(_problems(certificate)))


def _problems(certificate: Certificate) -> Iterator[Problem]:
    if certificate.digest != (expected := certificate.expected_digest()):
        yield Problem("digest", f"is {certificate.digest!r}, the fields have {expected!r}")
    shared = certificate.family_wise
    if shared and not _close(certificate.alpha, shared.alpha / shared.images):
        message = f"is {certificate.alpha!r}, the family-wise share is {shared.alpha / shared.images!r}"
        yield Problem("alpha", message)
    if not certificate.procedure.targeted and certificate.target_radius is not None:
        message = f"is {certificate.target_radius!r}, a {certificate.procedure.name} procedure has none"
        yield Problem("target_radius", message)
    yield from _provenance_problems(certificate)
    try:
        verdict = _replay(certificate)
    except _MismatchError as mismatch:
        yield mismatch.problem
        return
    except DomainError as error:
        yield Problem("procedure", str(error))
        return
    for name, value in derived(verdict).items():
        if name == "stages":
            yield from _compare_stages(certificate.stages, value)
        elif name == "radius" and not _floors_to(certificate.radius, verdict.radius):
            yield Problem(name, f"is {certificate.radius!r}, the counts give {value!r}")
        elif name != "radius" and not _agree(getattr(certificate, name), value):
            yield Problem(name, f"is {getattr(certificate, name)!r}, the counts give {value!r}")


def _provenance_problems(certificate: Certificate) -> Iterator[Problem]:
    if certificate.provenance is None:
        return
    ensemble, shapes = certificate.provenance.ensemble, certificate.provenance.sampling.shapes
    k, samples, evaluations = len(ensemble.members), certificate.samples, certificate.evaluations
    leading = k if ensemble.consensus is None else ensemble.consensus
    if leading > k:
        yield Problem("provenance.ensemble.consensus", f"is {leading}, the ensemble has {k} members")
    elif evaluations is None or not leading * samples <= evaluations <= k * samples:
        bounds = f"{leading * samples} to {k * samples}"
        yield Problem("evaluations", f"is {evaluations!r}, {samples} samples of {k} members take {bounds}")
    starts, stops = [0, *(shape.stop for shape in shapes)], [*(shape.start for shape in shapes), samples]
    if starts != stops:
        yield Problem("provenance.sampling.shapes", f"do not cover the samples 0 to {samples} without gap or overlap")


class _MismatchError(Exception):
    def __init__(self, field: str, message: str) -> None:
        self.problem = Problem(field, message)


def _replay(certificate: Certificate) -> Verdict:
    """Run the procedure on the recorded counts."""
    procedure = certificate.procedure.start(
        certificate.noise, certificate.target_radius, alpha=certificate.alpha, beta=certificate.beta
    )
    recorded = [("selection", certificate.selection)]
    recorded += [(f"stages[{i}].counts", stage.counts) for i, stage in enumerate(certificate.stages)]
    next(procedure)
    for i, (field, counts) in enumerate(recorded):
        try:
            wanted = procedure.send(np.array(counts, dtype=np.int64))
        except CountsError as error:
            raise _MismatchError(field, str(error)) from error
        except StopIteration as end:
            if i + 1 < len(recorded):
                raise _MismatchError("stages", f"has {len(recorded) - 1}, the procedure ends after {i}") from end
            verdict: Verdict = end.value
            return verdict
    raise _MismatchError("stages", f"has {len(recorded) - 1}, the procedure goes on and asks for {wanted} more samples")


def _compare_stages(stored: tuple[StageRecord, ...], recomputed: tuple[StageRecord, ...]) -> Iterator[Problem]:
    for i, (mine, theirs) in enumerate(zip(stored, recomputed, strict=True)):
        for name in StageRecord.model_fields:
            seen, expected = getattr(mine, name), getattr(theirs, name)
            if not _agree(seen, expected):
                yield Problem(f"stages[{i}].{name}", f"is {seen!r}, the counts give {expected!r}")


def _agree(seen: object, expected: object) -> bool:
    if isinstance(seen, float) and isinstance(expected, float):
        return math.isclose(seen, expected, rel_tol=0.0, abs_tol=TOLERANCE)
    return seen == expected


def _floors_to(floored: float, radius: float) -> bool:
    """Whether this is the radius to six decimals; where another library's last digit decides, both will do."""
    return floor_radius(max(0.0, radius - TOLERANCE)) <= floored <= floor_radius(radius + TOLERANCE)


def _close(seen: float, expected: float) -> bool:
    return math.isclose(seen, expected, rel_tol=TOLERANCE)
