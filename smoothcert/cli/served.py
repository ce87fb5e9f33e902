"""Two ensembles that a service serves, asked the same about the same images: the first half of a comparison.

Each has a folder with the ledger and the labels of `smoothcert evaluate`, from which an interrupted run goes on. The
noise of the two is independent: it is bound to the question, and the ensemble is a part of that (`smoothcert.seeds`).
Common noise would need certificates that do not bind it, and the best of many looks could then be shown as the only
one.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.cli import dataset
from smoothcert.cli.evaluate import CERTIFICATES, IMAGES, certified
from smoothcert.cli.files import write
from smoothcert.cli.options import connected
from smoothcert.errors import DomainError

if TYPE_CHECKING:
    from smoothcert.published import ServedEnsemble


def certify_both(
    old: str,
    new: str,
    images: Path,
    labels: Path | None,
    fields: dict[str, Any],
    out: Path,
    *,
    url: str | None,
    api_key: str | None,
) -> tuple[Path, Path]:
    """The folders of both; DomainError before anything is asked if they could not be compared."""
    from smoothcert.evaluation import Judged
    from smoothcert.report import Report

    with connected(url, api_key) as client:
        served = [client.ensembles.get(name) for name in (old, new)]
        require_comparable(*served, noise_given=bool({"noise", "sigma"} & set(fields)))
        data = dataset.read(images, labels, served[0].classes, apart_from=out)
        folders = (out / old, out / new)
        for each, folder in zip(served, folders, strict=True):
            question = {**fields, "ensemble": each.name}
            with closing(certified(client, each, data.images, question, folder / CERTIFICATES)) as found:
                judged = [Judged(certificate, label) for certificate, label in zip(found, data.labels, strict=True)]
            write(folder / IMAGES, Report(each.name, data.names, judged).images_csv())
    return folders


def require_comparable(old: ServedEnsemble, new: ServedEnsemble, *, noise_given: bool) -> None:
    """Raise DomainError for ensembles whose certificates would not be about the same thing."""
    if old.name == new.name:
        raise DomainError(f"OLD and NEW are both {old.name}: with --images they must be two ensembles")
    if old.input_shape != new.input_shape:
        shapes = f"{list(old.input_shape)} and {list(new.input_shape)}"
        raise DomainError(f"{old.name} and {new.name} take images of the shapes {shapes}: they must be the same")
    if old.classes != new.classes:
        raise DomainError(f"{old.name} and {new.name} have different classes: they must be the same, in one order")
    if not noise_given and old.noise != new.noise:
        labels = " and ".join("none" if each.noise is None else each.noise.label for each in (old, new))
        raise DomainError(
            f"{old.name} and {new.name} were made for different noises ({labels}): --noise names one for both, and "
            f"--allow-noise-mismatch allows it"
        )
