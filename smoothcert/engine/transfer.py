"""Certify a changed ensemble from the certificates of the old one: see `smoothcert.procedures.transfer`.

The changed ensemble may have other weights, fewer of them, or another precision. It must have the same classes and
images. Both run on common noise, which follows from the seed of the new question: that of the old samples is bound to
the old question, and is not used again.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from smoothcert.allocation import DISAGREEMENT, LOSS, allocate
from smoothcert.certificate import Certificate
from smoothcert.engine.case import Case, ensemble_record, start
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.pixels import Pixels
from smoothcert.engine.successor import Successor
from smoothcert.errors import DomainError
from smoothcert.procedures import Transfer
from smoothcert.question import ALPHA, Question
from smoothcert.seeds import new_seed


def transfer(
    old: Ensemble,
    new: Ensemble,
    images: Sequence[Tensor] | Tensor,
    certificates: Sequence[Certificate],
    *,
    alpha: float = ALPHA,
    loss: float = LOSS,
    disagreement: float = DISAGREEMENT,
    plans: Sequence[Transfer | None] | None = None,
    seed: str | None = None,
    batch: int = 256,
) -> list[Certificate | None]:
    """Certificates of `new`, in the order of the images [N, C, H, W], from the `fixed` certificates of `old`.

    With probability at least 1 - alpha each abstains, or the smoothed classifier of `new` gives its class everywhere
    within its radius. The samples are as few as `allocate` finds for `loss` and `disagreement`; a wrong expectation
    costs radius or samples, and never the truth of a certificate. `plans` are those of an earlier call of `allocate`,
    where these images are a part of a larger set. An image from which the old ensemble abstained has nothing to
    transfer, and gets None.
    """
    if len(images) != len(certificates):
        raise DomainError(f"there are {len(certificates)} certificates for {len(images)} images; each needs its own")
    planned = allocate(certificates, alpha=alpha, loss=loss, disagreement=disagreement) if plans is None else plans
    if len(planned) != len(certificates):
        raise DomainError(f"there are {len(planned)} plans for {len(certificates)} certificates; each needs its own")
    drawn = seed or new_seed()
    cases: list[Case | None] = []
    with Engine(new, batch=batch) as engine:
        for index, (image, certificate, plan) in enumerate(zip(images, certificates, planned, strict=True)):
            if plan is None:
                cases.append(None)
                continue
            pairs = Successor.of(new, old, top_class=certificate.class_index)
            pixels = Pixels.of(image, pairs.input_shape)
            _require_basis(certificate, old, pixels)
            question = Question(certificate.noise, plan, alpha=alpha)
            chosen = pairs if plan.joint else new
            cases.append(start(engine, pixels, question, seed=drawn, index=index, ensemble=chosen))
        return [None if case is None else case.result() for case in cases]


def _require_basis(certificate: Certificate, old: Ensemble, pixels: Pixels) -> None:
    """Raise DomainError unless the certificate is of this image and of the old ensemble, as it runs here."""
    if certificate.provenance is None:
        raise DomainError("the old certificate does not say of which ensemble and image it is: it has no provenance")
    if certificate.provenance.input.sha256 != pixels.sha256:
        raise DomainError(f"certificate {certificate.index} is of another image: its pixels have another sha256")
    stated, here = certificate.provenance.ensemble, ensemble_record(old)
    made = (stated.digest, stated.voting, stated.consensus, certificate.provenance.sampling.precision)
    if made != (here.digest, here.voting, here.consensus, old.precision):
        seen = f"{stated.name} ({stated.digest[:12]}, {stated.voting}, consensus {stated.consensus}, {made[3]})"
        runs = f"{here.name} ({here.digest[:12]}, {here.voting}, consensus {here.consensus}, {old.precision})"
        raise DomainError(f"certificate {certificate.index} is of {seen}, and the old ensemble is {runs}")
