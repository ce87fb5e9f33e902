"""A second attestation: somebody has repeated a certificate, and signs the outcome."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from smoothcert.attestation.keyring import Keyring
from smoothcert.attestation.signing import sign
from smoothcert.attestation.statement import ReplayRecord, Statement
from smoothcert.certificate import Certificate
from workers.errors import ReplayError


@dataclass(frozen=True)
class Witness:
    """Who signs, and into which file."""

    keyring: Keyring
    path: Path

    @classmethod
    def of(cls, path: Path | None, keyring: Path | None) -> Witness | None:
        """The witness that the options name; None if nothing is to be signed. Errors come before the work is done."""
        if path is None and keyring is None:
            return None
        if path is None or keyring is None:
            raise ReplayError(
                "--attest FILE and --keyring FILE belong together: the first is written, and the second has the key "
                "that signs it"
            )
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise ReplayError(f"cannot write {path}: does its folder exist, and is it writable?")
        return cls(Keyring.read(keyring), path)

    def attest(
        self, first: Certificate, differences: Sequence[str], remarks: Sequence[str], again: Certificate
    ) -> None:
        """Write the signed record of a replay, reproduced or not."""
        record = ReplayRecord(
            certificate=first.digest,
            reproduced=not differences,
            differences=tuple(differences),
            remarks=tuple(remarks),
            by=self.keyring.name,
            on=_machine(again),
            replayed_at=datetime.now(UTC),
        )
        text = sign(Statement.of_replay(first, record), self.keyring.signer)
        try:
            self.path.write_text(text + "\n")
        except OSError as error:
            raise ReplayError(f"cannot write {self.path}: {error.strerror or error}") from error


def _machine(again: Certificate) -> dict[str, str]:
    """The software and the device on which the certificate was repeated, as the second certificate states them."""
    provenance = again.provenance
    if provenance is None:
        return {"platform": platform.platform()}
    sampling = provenance.sampling
    named = {"device": sampling.device, "precision": sampling.precision, "platform": platform.platform()}
    return named | provenance.versions
