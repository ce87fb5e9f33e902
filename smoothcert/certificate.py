"""A certificate: a verdict with everything that is needed to check it, which `verification` does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, PrivateAttr, ValidationError

from smoothcert import notebook
from smoothcert.canonical import digest
from smoothcert.counts import MOST_NAME, SampleCounts, named_places
from smoothcert.errors import MOST, CertificateError, explain, fault, shown
from smoothcert.figures import counted, radius_text
from smoothcert.frozen import Frozen
from smoothcert.noise import AnyNoise
from smoothcert.preparation import Preparation
from smoothcert.procedures import AnyProcedure
from smoothcert.procedures.parameters import Parameters, WholeNumber
from smoothcert.question import ALPHA, FamilyWise, Question
from smoothcert.remarks import remarks
from smoothcert.resizing import ResizeRecord
from smoothcert.verdict import StageOutcome, StopReason, Verdict, floor_radius

FORMATS = ("smoothcert/certificate/1", "smoothcert/certificate/2")
"""The formats that can be read; new certificates have the last. In the first, noise follows from the seed alone, and
counts have an entry for every class."""
BOUND = "question/"
"""The beginning of a scheme whose noise is bound to the question, so that another question has other noise."""


def _is_none(value: object) -> bool:
    return value is None


Count = Annotated[int, Field(strict=True, ge=0, le=MOST)]
Real = Annotated[float, Field(allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


@dataclass(frozen=True)
class Seal:
    """The envelope of a certificate. Certificates that differ only in it are equal."""

    text: str | None = field(default=None, compare=False)


class StageRecord(Frozen):
    """One look at the counts and its outcome: a `Stage` of the verdict."""

    counts: SampleCounts
    """The samples drawn for this stage by class; `other` counts those of all other classes, and those without a class.
    Certificates of format 1 have a list of all classes, with a last entry for no class."""
    n: Count
    """The samples that the decision rests on: more than were drawn if the procedure keeps earlier ones."""
    count: Count
    """How many of those n fell on the chosen class."""
    outcome: StageOutcome
    p_lower: Probability | None = None
    """The lower bound on p_A, if the stage has one."""
    p_upper: Probability | None = None
    """The upper bound on p_A, if the stage has one."""
    certify_at: Annotated[int, Field(strict=True)] | None = None
    """The procedure certifies at this count or more, if it has integer boundaries."""
    abandon_at: Annotated[int, Field(strict=True)] | None = None
    """The procedure abandons at this count or less; -1 for never."""


class RemoteRecord(Frozen):
    """A member that ran at an endpoint, in the words of that endpoint.

    Its identity is not pinned: the digest of the member covers the address and the answer to one test image, and not
    the weights. So such a certificate cannot be replayed.
    """

    member: Count
    """Its place among the members."""
    model: str
    version: str | None
    """The version that the operator asked for; null where the endpoint chooses one."""
    platform: str
    server: str


class EnsembleRecord(Frozen):
    """The base classifier: these members in this order, voting by this rule."""

    name: str
    digest: str
    members: tuple[str, ...]
    """Digest of each member, best first: the sha256 of its file, or one over a denoiser and its classifier."""
    voting: str
    consensus: WholeNumber | None
    remote: Annotated[tuple[RemoteRecord, ...] | None, Field(exclude_if=_is_none)] = None
    """The members that ran at endpoints; absent where all of them ran in the worker."""


class ShapeRecord(Frozen):
    """The samples start, ..., stop - 1 went through the first members in slices of `rows`.

    Those of them that these left undecided went through others in slices of `rest_rows`; it is null if there were none.
    """

    start: Count
    stop: Count
    rows: WholeNumber
    rest_rows: WholeNumber | None = None


class PartRecord(Frozen):
    """The samples start, ..., stop - 1 were drawn and evaluated on one kind of machine."""

    start: Count
    stop: Count
    stream: Count
    """0 for the noise that follows from the seed alone. Each further number stands for fresh noise, for a machine
    that cannot draw the noise of the machine before it."""
    device: str
    precision: str
    versions: dict[str, str]


class SamplingRecord(Frozen):
    """Everything that determines the noise, and the arithmetic in which the classes were computed."""

    seed: str
    nonce: Annotated[str | None, Field(exclude_if=_is_none)] = None
    """What the service made the seed from, together with its secret and the request; absent where the seed was drawn
    or given otherwise."""
    image: Count
    """The number of the image within the seed, which is its place in the request."""
    scheme: str
    """How the noise follows from the seed. It begins with `question/` if the noise is bound to the whole question."""
    device: str
    precision: str
    shapes: tuple[ShapeRecord, ...]
    parts: Annotated[tuple[PartRecord, ...] | None, Field(exclude_if=_is_none)] = None
    """Which kind of machine drew which samples; absent where one kind drew all of them."""


class InputRecord(Frozen):
    """The image as it was certified: sha256 of its float32 pixels in [0, 1], little-endian, in the order C, H, W."""

    sha256: str
    shape: tuple[Count, ...]
    resized: Annotated[ResizeRecord | None, Field(exclude_if=_is_none)] = None
    """How it was made from an image of another size; absent where the image was certified as it was sent."""
    prepared: Annotated[Preparation | None, Field(exclude_if=_is_none)] = None
    """What the client says that it did to the image before it sent it, which is not checked; absent where it said
    nothing."""


class Provenance(Frozen):
    """How the counts came about."""

    ensemble: EnsembleRecord
    input: InputRecord
    sampling: SamplingRecord
    versions: dict[str, str]
    started_at: AwareDatetime
    finished_at: AwareDatetime


class Certificate(Frozen):
    """With confidence 1 - alpha, the smoothed classifier answers `class_index` everywhere within `radius`.

    A number of 100,000 or more is that of a superclass, which the `hierarchy` procedure declares.

    Without an alpha it does so for certain.

    An abstention claims nothing.
    """

    format: Literal["smoothcert/certificate/1", "smoothcert/certificate/2"] = "smoothcert/certificate/2"
    index: Count = 0
    """The place of the image in its request."""
    decision: Literal["certified", "abstain"]
    class_index: Count | None
    class_name: Annotated[str, Field(max_length=MOST_NAME)] | None = None
    radius: Annotated[Real, Field(ge=0)]
    """Rounded down to six decimals."""
    target_radius: Annotated[Real, Field(ge=0)] | None
    p_lower: Probability | None
    alpha: Annotated[Real, Field(gt=0, lt=1)] | None
    """The chance of a false certificate; null for a procedure that leaves nothing to chance."""
    beta: Annotated[Real, Field(gt=0, lt=1)]
    family_wise: FamilyWise | None = None
    noise: AnyNoise
    procedure: AnyProcedure
    samples: Count
    """The number of noise samples, those of the selection included."""
    evaluations: Count | None = None
    """The number of forward passes of members: K for a sample with consensus, and at most k for one without."""
    stop_reason: StopReason
    selection: SampleCounts
    """The samples that chose the class, by class, in the form of the counts of a stage; empty where there were none."""
    stages: tuple[StageRecord, ...]
    provenance: Provenance | None = None
    digest: str = ""
    """The sha256 of the canonical JSON of all other fields."""
    _picture: notebook.Picture = PrivateAttr(notebook.Picture())
    """The image that a notebook shows beside the certificate; it is neither in the JSON nor in the digest."""

    _seal: Seal = PrivateAttr(Seal())
    """The attestation of the certificate; it is neither in the JSON nor in the digest."""

    @property
    def attestation(self) -> str | None:
        """The certificate in an envelope that the service has signed; None if the client did not ask for one.

        `Client.certify(attest=True)` asks for it, and `smoothcert verify --key` checks it.
        """
        return self._seal.text

    @property
    def outcome(self) -> Literal["certified", "predicted", "abstained"]:
        """The decision in a word; a prediction finds the class at the image itself and proves no radius."""
        if self.decision == "abstain":
            return "abstained"
        return "predicted" if self.stop_reason == "predicted" else "certified"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What should be known beside the claim: a superclass, a changed image, members that are not pinned."""
        return tuple(remarks(self))

    @classmethod
    def of(cls, verdict: Verdict, **fields: Any) -> Certificate:
        """The certificate of a verdict, with the fields that the verdict does not determine."""
        written = fields.get("format", FORMATS[-1])
        unsigned = cls(**derived(verdict, fields["procedure"], written), **fields)
        return unsigned.model_copy(update={"digest": unsigned.expected_digest()})

    @property
    def question(self) -> Question:
        """The question that the certificate answers."""
        return Question(
            self.noise, self.procedure, self.target_radius, self.alpha or ALPHA, self.beta, self.family_wise
        )

    @property
    def counts(self) -> SampleCounts:
        """All samples by class, those of the selection included.

        In an ensemble of more than ten classes, rare ones may be counted under `other`.
        """
        return sum((stage.counts for stage in self.stages), start=self.selection)

    def expected_digest(self) -> str:
        """The digest of the fields as they are now."""
        return digest(self.model_dump(mode="json", exclude={"digest"}))

    def to_json(self) -> str:
        return self.model_dump_json(indent=2)

    def __repr__(self) -> str:
        """One line; `to_json` has the rest."""
        found = f"class {self.class_index}" if self.class_name is None else repr(self.class_name)
        claims = {
            "certified": f"certified: {found} within {radius_text(self.radius)}",
            "predicted": f"predicted: {found}",
            "abstained": "abstain",
        }
        claim = claims[self.outcome]
        return f"<Certificate {claim}, {self.noise.label}, {self.procedure.name}, {counted(self.samples, 'sample')}>"

    __str__ = __repr__  # pydantic's would print every field

    def _repr_html_(self) -> str:
        return notebook.html(self, self._picture.file)

    def beside(self, image: bytes | None) -> Certificate:
        """The same certificate, shown by a notebook beside its image: the bytes of a PNG, JPEG or WebP file."""
        shown = self.model_copy()
        shown._picture = notebook.Picture(image)
        return shown

    def sealed(self, attestation: str) -> Certificate:
        """The same certificate with its attestation."""
        attested = self.model_copy()
        attested._seal = Seal(attestation)
        return attested

    @classmethod
    def from_json(cls, text: str | bytes) -> Certificate:
        """Read a certificate; CertificateError says what is wrong with the text.

        The text must be written exactly as `to_json` writes it, apart from white space and order. Another reader may
        understand a missing field, a repeated key or a number in quotes differently, and then the digest would vouch
        for something that this reader does not see.
        """
        try:
            certificate = cls.model_validate_json(text)
            written = json.loads(text, object_pairs_hook=without_repetition)
        except ValidationError as error:
            raise CertificateError(f"not a certificate: {explain(error)}") from error
        except (ValueError, RecursionError) as error:
            raise CertificateError(f"not a certificate: {fault(error)}") from error
        if odd := sorted(_differences(written, certificate.model_dump(mode="json"))):
            raise CertificateError(f"not written as a certificate must be: {', '.join(odd)}")
        return certificate


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook` for `json.loads` that raises ValueError if a key is repeated."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {shown(twice)} comes twice")
    return fields


def _differences(written: Any, read: Any, place: str = "") -> Iterator[str]:
    """The places where a text has something else than was read from it."""
    if isinstance(written, dict) and isinstance(read, dict):
        for key in written.keys() | read.keys():
            yield from _differences(written.get(key, ...), read.get(key, ...), f"{place}.{key}".lstrip("."))
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        for i, (one, other) in enumerate(zip(written, read, strict=True)):
            yield from _differences(one, other, f"{place}[{i}]")
    elif isinstance(written, bool) != isinstance(read, bool) or written != read:
        yield place


def derived(
    verdict: Verdict, procedure: Parameters, written: str, labels: Sequence[int] | None = None
) -> dict[str, Any]:
    """The fields of a certificate of this format that follow from its verdict.

    `labels` are the classes that the entries of the verdict's counts stand for, where that is not all of them.
    """
    top, draws = verdict.top_class, (verdict.selection, *(stage.counts for stage in verdict.stages))
    if written == FORMATS[0]:
        counts = [SampleCounts.listing(each) for each in draws]
    else:
        named = None if procedure.rivals else named_places(draws[0], draws[1:])
        counts = [SampleCounts.of(each, named=named, labels=labels) for each in draws]
    return {
        "decision": "abstain" if top is None else "certified",
        "class_index": top if top is None or not labels or procedure.numbered else labels[top],
        "radius": floor_radius(verdict.radius),
        "p_lower": verdict.p_lower,
        "samples": verdict.samples,
        "stop_reason": verdict.stop_reason,
        "selection": counts[0],
        "stages": tuple(
            StageRecord(**{**vars(stage), "counts": stated})
            for stage, stated in zip(verdict.stages, counts[1:], strict=True)
        ),
    }
