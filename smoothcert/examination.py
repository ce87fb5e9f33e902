"""The examination of a file that somebody was handed: who signed it, is it unaltered, do its claims follow?

    signed      whose signature it bears, by the public keys that are given
    unaltered   the signature covers every byte, and the digest of a certificate its fields
    follows     everything that is claimed follows from the counts (`verification`), and nothing counts twice

A digest alone tells accidents, and not forgers: anybody can compute one. Only a signature tells who vouches for counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from smoothcert.attestation.envelope import Attestation
from smoothcert.attestation.keys import KeySet, PublicKey
from smoothcert.attestation.statement import REPLAY, ReplayRecord, finished_at
from smoothcert.certificate import FORMATS, Certificate
from smoothcert.documents import Document, Entry
from smoothcert.errors import AttestationError, SmoothcertError
from smoothcert.notebook import sentence
from smoothcert.verification import verify
from smoothcert.wrapper import OneEnsemble, Others

Aspect = Literal["signed", "unaltered", "follows"]
UNBOUND = (
    "In format 1 the noise is not bound to the question: with one seed, the best of many questions could have been "
    "chosen. Certificates of format 2 rule that out."
)
MOST_CLAIMS = 20
"""The number of claims, and of replays, that are told in words."""
MOST_NOTES = 20
"""The number of notes; images of one file may have been resized in as many ways."""
UNCHECKED = "The signature was not checked: that takes the public keys of the signer (`smoothcert verify --key FILE`)."
UNSIGNED = "A digest alone does not tell who computed it."


@dataclass(frozen=True)
class Conclusion:
    """An answer to one of the three questions."""

    holds: bool | None
    """None if it cannot be told."""
    sentence: str


@dataclass(frozen=True)
class Examined:
    """A certificate that was examined, and where it was found."""

    certificate: Certificate
    entry: Entry
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Examination:
    """What was found out about a file; true where nothing is wrong."""

    certificates: int
    signed: Conclusion
    unaltered: Conclusion
    follows: Conclusion
    problems: tuple[str, ...]
    """Everything that is wrong, each with its place in the file."""
    notes: tuple[str, ...]
    """What is not wrong but should be known."""
    claims: tuple[str, ...] = ()
    """What the certificates without a problem claim, in words; the first of them."""

    def __bool__(self) -> bool:
        return not self.problems


def examine(
    text: bytes,
    keys: KeySet | None = None,
    *,
    unsigned: bool = False,
    others: Others | None = None,
    name: str = "",
    now: datetime | None = None,
    admit: Callable[[Certificate], None] = lambda _: None,
    take: Callable[[Examined], None] = lambda _: None,
) -> Examination:
    """Examine all certificates and attestations in a file.

    With `keys`, everything in it must be signed by one of them; `unsigned` allows what is not signed at all. `others`
    has the certificates of files examined before, and `name` is that of this one. `admit` may raise an error for a
    certificate that would take too long to verify, and `take` is given every certificate that could be read.
    """
    examiner = Examiner(keys, unsigned, others or Others(), name, now or datetime.now(UTC), admit, take)
    document = Document(text)
    try:
        for entry in document:
            examiner.examine(entry, document)
    except SmoothcertError as error:
        examiner.object("follows", "", str(error))
    examiner.finish(document)
    return examiner.result()


@dataclass
class Examiner:
    """An examination under way."""

    keys: KeySet | None
    unsigned: bool
    others: Others
    name: str
    now: datetime
    admit: Callable[[Certificate], None]
    take: Callable[[Examined], None]
    certificates: int = 0
    problems: list[tuple[Aspect, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    signers: Counter[str] = field(default_factory=Counter)
    """How often each signer was found, as sentences say it."""
    claimed: Counter[str] = field(default_factory=Counter)
    """The keyids whose signatures cannot be checked without keys."""
    verified: int = 0
    """The certificates that could be read and recomputed."""
    sealed: int = 0
    """The envelopes; whatever else is in the file bears no signature."""
    bare: int = 0
    """The certificates without an envelope."""
    claims: list[str] = field(default_factory=list)
    confirmed: list[ReplayRecord] = field(default_factory=list)
    """The replays whose signature was confirmed."""
    reported: list[ReplayRecord] = field(default_factory=list)
    """All other replays, which anybody may have written."""
    ensemble: OneEnsemble = field(default_factory=OneEnsemble)

    def object(self, aspect: Aspect, place: str, sentence: str) -> None:
        self.problems.append((aspect, f"{place}{sentence}"))

    def examine(self, entry: Entry, document: Document) -> None:
        """Examine a certificate or an attestation; errors of one do not keep the others from being examined."""
        self.certificates += 1
        before = len(self.problems)
        try:
            certificate = self._unsealed(entry) if entry.sealed else self._bare(entry)
            if certificate is not None:
                self._verify(certificate, entry, document)
        except SmoothcertError as error:
            self.object("follows", entry.place, str(error))
            return
        if certificate is None:
            return
        found = tuple(problem for _, problem in self.problems[before:])
        self.take(Examined(certificate, entry, found))
        if not found and len(self.claims) < MOST_CLAIMS:
            self.claims.append(sentence(certificate))

    def _bare(self, entry: Entry) -> Certificate:
        self.bare += 1
        certificate = Certificate.from_json(entry.text)
        if self.keys is not None and not self.unsigned:
            self.object("signed", entry.place, "is not signed, and only an attestation can be checked with a key")
        return certificate

    def _unsealed(self, entry: Entry) -> Certificate | None:
        """The certificate in an envelope, after a look at its signature; None if there is none to be verified."""
        self.sealed += 1
        try:
            attestation = Attestation.read(entry.text)
        except AttestationError as error:
            self.object("unaltered", entry.place, str(error))
            return None
        if attestation.statement.predicate_type == REPLAY:
            self._take_replay(attestation, entry.place)
            return None
        certificate = attestation.statement.certificate()
        self._check_signature(attestation, finished_at(certificate), entry.place)
        return certificate

    def _take_replay(self, attestation: Attestation, place: str) -> None:
        self.certificates -= 1
        record = attestation.statement.replay()
        key = self._check_signature(attestation, record.replayed_at, place)
        if key is not None and key.name != record.by:
            self.object("signed", place, f"is signed by {key.name}, and says that {record.by} has replayed it")
            key = None
        (self.reported if key is None else self.confirmed).append(record)
        if not record.reproduced:
            self.object("follows", place, f"{record.by} could not reproduce the certificate {record.certificate}")

    def _check_signature(self, attestation: Attestation, finished: datetime, place: str) -> PublicKey | None:
        """The key whose signature was confirmed; None if none was."""
        short = f"{attestation.keyid[:16]}…"
        if self.keys is None:
            self.claimed[short] += 1
            return None
        key = self.keys.find(attestation.keyid)
        if key is None:
            self.object("signed", place, f"is signed with the key {short}, which is not among the keys given")
            return None
        from smoothcert.attestation.signing import is_signed_by

        if not is_signed_by(attestation, key):
            sentence = f"the signature does not match: the file was altered, or {key.name} did not sign it"
            self.object("unaltered", place, sentence)
        elif objection := key.objection(finished, self.now):
            self.object("signed", place, f"the key {short} of {key.name} {objection}")
        else:
            self.signers[f"{key.name}, with the key {short}"] += 1
            return key
        return None

    def _verify(self, certificate: Certificate, entry: Entry, document: Document) -> None:
        self.admit(certificate)
        self.verified += 1
        for mismatch in verify(certificate).problems:
            self.object("unaltered" if mismatch.field == "digest" else "follows", entry.place, str(mismatch))
        for contradiction in document.wrapper.contradictions(certificate):
            self.object("follows", entry.place, contradiction)
        where = f"{self.name} {entry.place.removesuffix(': ')}".strip() or "another one"
        if (repetition := self.others.repetition(certificate, where, sealed=entry.sealed)) is not None:
            self.object("follows", entry.place, repetition)
        if document.wrapper.one_ensemble and (objection := self.ensemble.objection(certificate)) is not None:
            self.object("follows", entry.place, objection)
        noted = [*([UNBOUND] if certificate.format == FORMATS[0] else ()), *certificate.remarks]
        self.notes += [note for note in noted if note not in self.notes and len(self.notes) < MOST_NOTES]

    def finish(self, document: Document) -> None:
        """Add what is wrong with the file as a whole."""
        for problem in (*document.wrapper.problems, *document.problems):
            self.object("follows", "", problem)
        images = document.wrapper.images
        if images is not None and images != self.certificates:
            sentence = f"has {self.certificates} certificates, and the certification had {images} images"
            self.object("follows", "certificates: ", sentence)

    def result(self) -> Examination:
        return Examination(
            self.certificates,
            self._signed(),
            self._unaltered(),
            self._follows(),
            tuple(dict.fromkeys(problem for _, problem in self.problems)),
            (*((UNCHECKED,) if self.claimed else ()), *self.notes),
            tuple(self.claims),
        )

    def _of(self, aspect: Aspect) -> list[str]:
        return [problem for each, problem in self.problems if each == aspect]

    def _signed(self) -> Conclusion:
        if wrong := self._of("signed"):
            return Conclusion(False, _listed("Not by anybody whose key was given: ", wrong))
        if self.signers:
            names = "; ".join(
                signer if len(self.signers) == 1 else f"{signer} ({count})" for signer, count in self.signers.items()
            )
            if self.bare:
                others = f"{self.bare:,} of {self.certificates:,} certificates"
                return Conclusion(None, f"In part: by {names}. {others} are not signed: nobody vouches for them.")
            return Conclusion(True, f"By {names}.")
        if self.claimed:
            keys = ", ".join(self.claimed)
            return Conclusion(None, f"It names the key {keys}; public keys are needed to tell whether that is true.")
        if self.sealed:
            return Conclusion(False, "No signature could be confirmed.")
        if not self.bare:
            return Conclusion(None, "That cannot be told: nothing in it could be read.")
        return Conclusion(None, "It is not signed: nobody vouches for the counts.")

    def _unaltered(self) -> Conclusion:
        if wrong := self._of("unaltered"):
            return Conclusion(False, _listed("", wrong))
        if self.signers and not self.bare and not self._of("signed"):
            return Conclusion(True, "Every byte is as it was signed.")
        if self.verified:
            return Conclusion(True, f"The digests match the fields. {UNSIGNED}")
        return Conclusion(None, "It has no digest and no signature that could be checked.")

    def _follows(self) -> Conclusion:
        if wrong := self._of("follows"):
            return Conclusion(False, _listed("", wrong))
        replays = [*map(_reproduced, self.confirmed), *map(_reported, self.reported)][:MOST_CLAIMS]
        if self.verified:
            return Conclusion(True, " ".join(["Everything that is claimed follows from the counts.", *replays]))
        if replays:
            return Conclusion(None if self.reported else True, " ".join(replays))
        return Conclusion(None, "No certificate in it could be read.")


def _reproduced(record: ReplayRecord) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in record.on.items())
    return f"{record.by} has reproduced every count of the certificate {record.certificate} on {machine}."


def _reported(record: ReplayRecord) -> str:
    return (
        f"It says that {record.by} has reproduced every count of the certificate {record.certificate}, which only a "
        "signature that was checked can confirm."
    )


def _listed(before: str, problems: list[str]) -> str:
    more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
    return f"{before}{problems[0]}{more}."
