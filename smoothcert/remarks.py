"""What should be known beside the claim of a certificate, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from smoothcert.figures import counted

if TYPE_CHECKING:
    from smoothcert.certificate import Certificate, RemoteRecord

MOST_NAMED = 5
"""The number of remote members that are named."""


def remarks(certificate: Certificate) -> Iterator[str]:
    """Sentences, none for most certificates."""
    if (remark := certificate.procedure.remark(certificate.class_index)) is not None:
        yield remark
    if certificate.provenance is None:
        return
    done = "examined" if certificate.decision == "abstain" else "certified"
    if (prepared := certificate.provenance.input.prepared) is not None:
        yield (
            f"What was {done} is the image that the client sent. It says that it made it of {prepared}, which is "
            f"not checked. The radius is measured in the image that was sent."
        )
    if (resized := certificate.provenance.input.resized) is not None:
        yield f"What was {done} is a resized image: {resized}. The radius is measured in the resized image."
    if remote := certificate.provenance.ensemble.remote:
        yield unpinned(remote, members=len(certificate.provenance.ensemble.members))


def unpinned(remote: tuple[RemoteRecord, ...], *, members: int) -> str:
    """Why the identity of remote members is open."""
    named = "; ".join(map(_name, remote[:MOST_NAMED])) + ("; ..." if len(remote) > MOST_NAMED else "")
    run = "runs" if len(remote) == 1 else "run"
    return (
        f"{len(remote)} of {counted(members, 'member')} {run} at an endpoint ({named}). The identity of such a member "
        f"is not pinned: its digest covers the address and one answer, and not the weights. So the certificate cannot "
        f"be replayed."
    )


def _name(each: RemoteRecord) -> str:
    version = "" if each.version is None else f" version {each.version}"
    software = ", ".join(filter(None, (each.platform, each.server)))
    return f"model {each.model}{version}" + (f" of {software}" if software else "")
