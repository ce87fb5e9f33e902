"""Repeat a certificate: draw its samples again from the seed that it states, and compare every count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch
from PIL import Image, UnidentifiedImageError
from rich.console import Console
from rich.progress import Progress
from torch import Tensor

from models.registry import ZOO, load
from smoothcert.attestation.envelope import Attestation
from smoothcert.certificate import FORMATS, Certificate, Provenance
from smoothcert.cli.screen import plain
from smoothcert.documents import Document
from smoothcert.engine.case import start, versions
from smoothcert.engine.checkpoint import Machine
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.pixels import Pixels
from smoothcert.engine.successor import Successor
from smoothcert.errors import SmoothcertError, fault
from smoothcert.evaluation import ENDS_EARLY
from smoothcert.figures import radius_text
from smoothcert.procedures import Transfer
from smoothcert.remarks import unpinned
from smoothcert.resizing import ResizeRecord
from smoothcert.verification import verify
from workers.errors import ReplayError
from workers.witness import Witness

MODES = {1: "L", 3: "RGB"}
"""Pillow's mode for each number of channels."""
EXCEPT = {"digest", "provenance"}
"""The fields that are not compared: times differ, and with them the digest."""


@dataclass(frozen=True)
class Replay:
    """The certificate of the second time, and how it differs from the first."""

    certificate: Certificate
    differences: tuple[str, ...]
    """Each field that differs, with both values."""
    remarks: tuple[str, ...]
    """What may explain a difference: another version, or other vector instructions."""


def replay(
    certificate: Certificate, image: Tensor, *, zoo: Path = ZOO, allowed_imports: frozenset[str] = frozenset()
) -> Replay:
    """Certify the image again with the seed, the slices and the arithmetic of the certificate.

    `image` may also be all images of the request, [N, C, H, W], as the archive keeps them.
    """
    provenance = _provenance(certificate)
    ensemble = _ensemble(provenance, zoo, allowed_imports)
    image = _certified(provenance, _its_own(certificate, image), ensemble.input_shape)
    with Engine(ensemble, batch=_rows(provenance)) as engine, Progress(transient=True) as bar:
        sampling = provenance.sampling
        begun = start(
            engine,
            image,
            certificate.question,
            seed=sampling.seed,
            ensemble=_beside(certificate, ensemble, zoo, allowed_imports),
            index=sampling.image,
            nonce=sampling.nonce,
            bound=certificate.format != FORMATS[0],
            streams=tuple((part.start, part.stream) for part in sampling.parts or ()) or ((0, 0),),
        )
        task = bar.add_task("samples", total=certificate.samples)
        while not begun.handle.future.done():
            bar.update(task, completed=begun.handle.progress.samples)
            try:
                begun.handle.result(timeout=0.2)
            except TimeoutError:
                continue
        again = begun.result()
    return Replay(
        again,
        tuple(_differences(certificate, again)),
        (*_remarks(provenance, versions(Machine.of(ensemble))), *_left_out(certificate, again)),
    )


def _provenance(certificate: Certificate) -> Provenance:
    if certificate.provenance is None:
        raise ReplayError("the certificate does not say how its counts came about (provenance is null)")
    if problems := verify(certificate).problems:
        raise ReplayError(f"the certificate is not consistent in itself: {problems[0]}")
    if remote := certificate.provenance.ensemble.remote:
        raise ReplayError(unpinned(remote, members=len(certificate.provenance.ensemble.members)))
    return certificate.provenance


def _resized(image: Tensor, record: ResizeRecord) -> Tensor:
    """The image that was certified, from its source [C, H, W] of bytes."""
    if image.dtype != torch.uint8 or len(image) not in (1, 3):
        raise ReplayError(
            f"only 8-bit images of 1 or 3 channels are resized, got {image.dtype} of {tuple(image.shape)}"
        )
    picture = Image.fromarray(image[0].numpy() if len(image) == 1 else image.permute(1, 2, 0).numpy())
    return _channels_first(np.asarray(record.apply(picture)))


def _channels_first(array: Any) -> Tensor:
    return torch.from_numpy(np.array(array[None] if array.ndim == 2 else array.transpose(2, 0, 1), order="C"))


def _ensemble(provenance: Provenance, zoo: Path, allowed_imports: frozenset[str]) -> Ensemble:
    stated, sampling = provenance.ensemble, provenance.sampling
    ensemble = load(
        stated.name,
        zoo=zoo,
        device=sampling.device,
        precision=sampling.precision,
        runtime=runtime_of(provenance.versions),
        batch=_rows(provenance),
        voting=stated.voting,
        consensus=stated.consensus,
        allowed_imports=allowed_imports,
    )
    if ensemble.digest != stated.digest:
        raise ReplayError(f"{stated.name} has digest {ensemble.digest} here, the certificate says {stated.digest}")
    members = tuple(member.digest for member in ensemble.members)
    if members != stated.members:
        raise ReplayError(f"{stated.name} has the members {members} here, the certificate says {stated.members}")
    return ensemble


def runtime_of(versions: Mapping[str, str]) -> str:
    """What computed the members. Earlier certificates do not name it, but have its version among the others."""
    unnamed = next((name for name in ("openvino", "compiled") if name in versions), "torch")
    return versions.get("runtime", unnamed)


def _beside(certificate: Certificate, ensemble: Ensemble, zoo: Path, allowed_imports: frozenset[str]) -> Ensemble:
    """The ensemble beside the one that it replaces, if the certificate counts what was lost between them."""
    procedure = certificate.procedure
    if not isinstance(procedure, Transfer) or not procedure.joint:
        return ensemble
    old = procedure.old
    before = _ensemble(_provenance(old), zoo, allowed_imports)
    return Successor.of(ensemble, before, top_class=old.class_index if procedure.combination == "product" else None)


def _rows(provenance: Provenance) -> int:
    """The rows of a slice, on which the last bits of logits depend; a run that had to shrink cannot be repeated."""
    shapes = provenance.sampling.shapes
    rows = {rows for shape in shapes for rows in (shape.rows, shape.rest_rows) if rows is not None}
    if len(rows) != 1:
        raise ReplayError(f"the samples went through in slices of {sorted(rows)} rows; only one size can be repeated")
    return rows.pop()


def _its_own(certificate: Certificate, image: Tensor) -> Tensor:
    """The image of a certificate, of one or of all images [N, C, H, W] of its request."""
    if image.ndim != 4:
        return image
    if certificate.index >= len(image):
        raise ReplayError(
            f"the certificate is of image {certificate.index}, counted from 0, and {len(image)} were given"
        )
    return image[certificate.index]


def _certified(provenance: Provenance, image: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """The image that was certified, which may be given as it was sent: before it was resized, or as [H, W, C]."""
    stated, (channels, height, width) = provenance.input, shape
    if stated.shape != shape:
        raise ReplayError(f"the certificate is about {stated.shape}, images here have {shape}")
    if tuple(image.shape) == (height, width, channels) != shape:
        image = image.permute(2, 0, 1)
    resized = stated.resized
    # Source and result may have one size, where a part of the source was enlarged: then the pixels tell them apart.
    if (
        resized is not None
        and not _has(image, shape, stated.sha256)
        and tuple(image.shape[-2:]) == resized.source[::-1]
    ):
        image = _resized(image, resized)
    seen = Pixels.of(image, shape).sha256
    if seen != stated.sha256:
        then, here = resized.by if resized else None, f"Pillow {PIL.__version__}"
        why = f"; {then} has resized the source then, {here} would here" if then not in (None, here) else ""
        raise ReplayError(
            f"this is another image: its pixels have sha256 {seen}, the certificate says {stated.sha256}{why}"
        )
    return image


def _has(image: Tensor, shape: tuple[int, int, int], sha256: str) -> bool:
    return Pixels.of(image, shape).sha256 == sha256 if tuple(image.shape) == shape else False


def _differences(first: Certificate, again: Certificate) -> list[str]:
    before, after = first.model_dump(exclude=EXCEPT), again.model_dump(exclude=EXCEPT)
    before["index"] = after["index"]  # the place in the request is not part of the question
    if _asked_more(first, again):
        before["evaluations"] = after["evaluations"]
    return [f"{name}: {before[name]!r} then, {after[name]!r} now" for name in before if before[name] != after[name]]


def _remarks(provenance: Provenance, here: dict[str, str]) -> list[str]:
    """What was different when the certificate was made, part by part if several kinds of machines made it."""
    parts = provenance.sampling.parts or ()
    places = [(f"for the samples {part.start} to {part.stop - 1}, ", part.versions) for part in parts]
    return [
        f"{where}{name} was {then}, here it is {here.get(name)}"
        for where, there in places or [("", provenance.versions)]
        for name, then in there.items()
        if here.get(name) != then
    ]


def _left_out(first: Certificate, again: Certificate) -> list[str]:
    """A remark if the first version ran every member of a hard or softmax vote, and this one fewer: `engine.exits`."""
    if not _asked_more(first, again):
        return []
    then, now = first.evaluations, again.evaluations
    return [f"evaluations were {then}, here they are {now}: members that cannot change a class are left out"]


def _asked_more(first: Certificate, again: Certificate) -> bool:
    then, now = first.evaluations or 0, again.evaluations or 0
    return then > now and first.provenance is not None and first.provenance.ensemble.voting in ENDS_EARLY


def read_image(path: Path, channels: int | None = None) -> Tensor:
    """[C, H, W] from an image file, or the array of an npy file as it is; uint8 or floating-point.

    A file with other channels is converted as the service does where a request allows it (`convert`).
    """
    try:
        if path.suffix == ".npy":
            return torch.from_numpy(np.ascontiguousarray(np.load(path, allow_pickle=False)))
        with Image.open(path) as picture:
            mode = MODES.get(channels or 0, picture.mode)
            array = np.asarray(picture if picture.mode == mode else picture.convert("RGB").convert(mode))
    except (OSError, ValueError, UnidentifiedImageError) as error:
        raise ReplayError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    return _channels_first(array)


def command(
    certificate: str,
    image: str,
    zoo: str,
    allowed_imports: frozenset[str],
    *,
    attest: Path | None = None,
    keyring: Path | None = None,
) -> None:
    """The command line's `replay`: prints the outcome and exits with 1 if anything differs.

    With `attest`, the outcome is also signed with the keyring and written to that file, whatever it is.
    """
    first = _chosen(Path(certificate), Path(image))
    witness = Witness.of(attest, keyring)
    again = replay(first, _image_of(first, image), zoo=Path(zoo) if zoo else ZOO, allowed_imports=allowed_imports)
    if witness is not None:
        witness.attest(first, again.differences, again.remarks, again.certificate)
    console = Console(highlight=False)
    for remark in again.remarks:
        console.print("[yellow]note:[/]", plain(remark))
    if again.differences:
        for difference in again.differences:
            console.print("[red]differs:[/]", plain(difference))
        raise SystemExit(1)
    radius = radius_text(first.radius)
    console.print(f"the same: {first.decision}, radius {radius}, {first.samples:,} samples, every count of every stage")


def _image_of(certificate: Certificate, image: Path | str) -> Tensor:
    return read_image(Path(image), certificate.provenance.input.shape[0] if certificate.provenance else None)


def _chosen(path: Path, image: Path) -> Certificate:
    """The certificate in a file; of several, the one that is about the image."""
    found = _read(path)
    if len(found) == 1:
        return found[0]
    own = [each for each in found if _is_about(each, _image_of(each, image))]
    if len(own) != 1:
        raise ReplayError(
            f"{path}: of its {len(found)} certificates {len(own) or 'none'} are about {image}, wanted one"
        )
    return own[0]


def _is_about(certificate: Certificate, image: Tensor) -> bool:
    try:
        provenance = _provenance(certificate)
        channels, height, width = provenance.input.shape
        _certified(provenance, _its_own(certificate, image), (channels, height, width))
    except (SmoothcertError, ValueError):  # the shape may have other than three parts
        return False
    return True


def _read(path: Path) -> list[Certificate]:
    """The certificates in a file, some of which may be attestations."""
    try:
        return [
            Attestation.read(entry.text.decode()).statement.certificate()
            if entry.sealed
            else Certificate.from_json(entry.text.decode())
            for entry in Document(path.read_bytes())
        ]
    except OSError as error:
        raise ReplayError(f"{path}: {error.strerror or error}") from error
    except SmoothcertError as error:
        raise ReplayError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ReplayError(f"{path}: not a certificate: {fault(error)}") from error
