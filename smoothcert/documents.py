"""Files that hold certificates: one certificate or attestation, a certification, a list, lines of them, or a ledger.

A reader gets the text of each certificate with its place, and what is wrong with the file around them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from smoothcert.attestation.envelope import is_envelope
from smoothcert.certificate import without_repetition
from smoothcert.certification import Certification
from smoothcert.errors import CertificateError, fault
from smoothcert.wrapper import Wrapper

RUN = {"run", "once"}
"""The keys of the first line of a ledger."""
FINISHED = {"image", "label", "seconds", "certificate"}
"""The keys that the other lines of a ledger may have."""
NOTHING = "there is no certificate in it"


@dataclass(frozen=True)
class Entry:
    """A certificate or an attestation in a file, as a text that was not examined yet."""

    place: str
    """Where it stands, as the beginning of a sentence; empty if it is the whole file."""
    text: bytes
    sealed: bool
    """Whether it is an envelope."""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """What the line of a ledger says beside the certificate: image, label, seconds."""


@dataclass
class Document:
    """The entries of a file, read one by one; `problems` and `wrapper` are complete when all are read."""

    text: bytes
    wrapper: Wrapper = field(default_factory=Wrapper)
    """What the file says of all of its certificates."""
    problems: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Entry]:
        """Every entry; CertificateError if the rest of the file cannot be read."""
        try:
            payload = _read(self.text)
        except (ValueError, RecursionError) as error:
            if len(lines := self.text.splitlines()) < 2:
                raise CertificateError(f"not a certificate: {fault(error)}") from error
            yield from self._lines(lines)
            return
        if _is_head(payload) or _is_finished(payload):
            yield from self._lines([self.text])
            return
        if _is_certification(payload):
            self.wrapper = Wrapper.of_certification(payload)
        several = payload["certificates"] if _is_certification(payload) else payload
        if not isinstance(several, list):
            yield Entry("", self.text, is_envelope(payload))
            return
        if not several:
            raise CertificateError(NOTHING)
        for i, each in enumerate(several):
            yield Entry(f"certificates[{i}]: ", json.dumps(each).encode(), sealed=False)

    def _lines(self, lines: list[bytes]) -> Iterator[Entry]:
        first = found = 0
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            first = first or number
            try:
                record = _read(line)
            except (ValueError, RecursionError) as error:
                raise CertificateError(f"line {number}: not a certificate: {fault(error)}") from error
            if _is_head(record):
                self._head(number, record["run"], at_head=number == first)
                continue
            beside: dict[str, Any] = {}
            if _is_finished(record):
                line = json.dumps(record["certificate"]).encode()
                beside = {key: value for key, value in record.items() if key != "certificate"}
            found += 1
            yield Entry(f"line {number}: ", line, is_envelope(record), beside)
        if not found:
            raise CertificateError(NOTHING)

    def _head(self, number: int, run: object, *, at_head: bool) -> None:
        if at_head:
            self.wrapper = Wrapper.of_run(run if isinstance(run, Mapping) else {})
        else:
            self.problems.append(f"line {number}: describes a run, which only the first line of a ledger may do")


def _is_head(record: Any) -> bool:
    return isinstance(record, dict) and "run" in record and record.keys() <= RUN


def _is_finished(record: Any) -> bool:
    return isinstance(record, dict) and "certificate" in record and record.keys() <= FINISHED


def _is_certification(payload: Any) -> bool:
    """Whether it holds certificates and has no other fields: an altered certificate could look like both."""
    return (
        isinstance(payload, dict) and "certificates" in payload and payload.keys() <= Certification.model_fields.keys()
    )


def _read(text: bytes) -> Any:
    """Parse JSON in UTF-8 in which no key comes twice: another reader may see the other value."""
    return json.loads(text.decode(), object_pairs_hook=without_repetition)
