"""The certificates of one ensemble and one question, from files that somebody was handed, examined and judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from smoothcert.attestation.keys import KeySet
from smoothcert.certificate import Certificate, EnsembleRecord
from smoothcert.errors import CertificateError
from smoothcert.evaluation import Judged
from smoothcert.examination import Examination, Examined, examine
from smoothcert.ledger import differences
from smoothcert.wrapper import Others


@dataclass(frozen=True)
class Collection:
    """Certificates that answer one question about one ensemble; at least one of them."""

    name: str
    found: Sequence[Examined]
    examinations: Mapping[str, Examination] = field(default_factory=dict)
    """What was found out about each file, by its name."""

    @property
    def judged(self) -> list[Judged]:
        """Each by the label that its line states; a certificate with a problem counts as an abstention."""
        return [Judged(each.certificate, _label(each), not each.problems) for each in self.found]

    @property
    def names(self) -> list[str]:
        """A name for each image: what its line calls it, or its number."""
        return [_name(each, place) for place, each in enumerate(self.found)]

    @property
    def ensemble(self) -> EnsembleRecord | None:
        """The ensemble of all certificates; None where they do not say."""
        provenance = next((each for each in self.found if not each.problems), self.found[0]).certificate.provenance
        return None if provenance is None else provenance.ensemble

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Everything that is wrong, by file."""
        return [(file, problem) for file, each in self.examinations.items() for problem in each.problems]


def collect(texts: Iterable[tuple[str, bytes]], keys: KeySet | None = None, *, name: str = "") -> Collection:
    """Examine the certificates of these files; CertificateError if there is none, or they answer several questions.

    With `keys`, a certificate that none of them has signed is wrong.
    """
    found: list[Examined] = []
    others, examinations = Others(), {}
    for file, text in texts:
        examinations[file] = examine(text, keys, others=others, name=file, take=found.append)
    if not found:
        problems = [f"{file}: {problem}" for file, each in examinations.items() for problem in each.problems]
        reason = problems[0] if problems else f"{name} has no files with certificates"
        raise CertificateError(f"there is no certificate that could be read: {reason}")
    _require_one_question([each for each in found if not each.problems])
    return Collection(name, found, examinations)


def about(certificate: Certificate) -> dict[str, Any]:
    """What a certificate is about apart from its image: the ensemble and the question, as names and values."""
    provenance = certificate.provenance
    ensemble = None if provenance is None else provenance.ensemble
    return {
        "ensemble": ensemble and ensemble.digest,
        "voting": ensemble and ensemble.voting,
        "consensus": ensemble and ensemble.consensus,
        "noise": certificate.noise.parameters(),
        "procedure": certificate.procedure.model_dump(mode="json", exclude=set(certificate.procedure.own)),
        "radius": certificate.target_radius,
        "alpha": certificate.alpha,
        "beta": certificate.beta,
    }


def _require_one_question(sound: Sequence[Examined]) -> None:
    if not sound:
        return
    first, *others = sound
    question = about(first.certificate)
    for each in others:
        if other := [*differences(about(each.certificate), question)]:
            place = each.entry.place.removesuffix(": ") or "another file"
            raise CertificateError(f"the certificates are not of one ensemble and one question: {place}: {other[0]}")


def _label(each: Examined) -> int | None:
    label = each.entry.beside.get("label")
    return label if isinstance(label, int) and not isinstance(label, bool) else None


def _name(each: Examined, place: int) -> str:
    image = each.entry.beside.get("name", each.entry.beside.get("image"))
    digest = "name" not in each.entry.beside and isinstance(image, str)
    return str(place) if image is None or digest else str(image)
