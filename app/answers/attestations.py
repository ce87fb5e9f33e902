"""Certificates as attestations: signed with the key of the service when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

from securesystemslib.signer import Signer

from app.executor import BoundedExecutor
from app.http.errors import ProblemError
from smoothcert.attestation.keyring import Keyring
from smoothcert.attestation.keys import KeySet
from smoothcert.attestation.signing import sign
from smoothcert.attestation.statement import Statement
from smoothcert.certificate import Certificate
from smoothcert.errors import AttestationError


class Attester:
    """Signs certificates, in a thread: a request may have a thousand. The same certificate gets the same signature."""

    def __init__(self, keyring: Keyring | None) -> None:
        self._signer = None if keyring is None else keyring.signer
        self._executor = BoundedExecutor()
        self.published = KeySet(keys=()) if keyring is None else keyring.published
        """The public keys of the service; none if it does not sign."""

    @property
    def signs(self) -> bool:
        """Whether the service has a key to sign with."""
        return self._signer is not None

    def require_signer(self) -> Signer:
        """The key that signs; ProblemError if the service has none."""
        if self._signer is None:
            detail = "this service has no key to sign certificates with; SMOOTHCERT_KEYRING_FILE names one"
            raise ProblemError("not_acceptable", detail)
        return self._signer

    async def attest(self, texts: Sequence[str]) -> str:
        """The attestation of each certificate that Redis holds, one in each line."""
        signer = self.require_signer()
        if not texts:
            raise ProblemError("not_acceptable", "the certification has ended without a certificate to be signed")
        lines = await self._executor.run(lambda: [_attested(text, signer) for text in texts])
        return "".join(f"{line}\n" for line in lines)

    def close(self) -> None:
        self._executor.close()


def _attested(text: str, signer: Signer) -> str:
    certificate = Certificate.from_json(text)
    if certificate.digest != certificate.expected_digest():  # nothing that was damaged in Redis is signed
        raise AttestationError(f"the stored certificate {certificate.digest} was altered")
    try:
        return sign(Statement.of(certificate), signer)
    except AttestationError as error:
        raise ProblemError("not_acceptable", str(error)) from None
