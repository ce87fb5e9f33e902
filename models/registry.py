"""Ensembles on disk: `<zoo>/<name>/ensemble.toml`, the files of its members, perhaps a card (README.md), nothing else.

A member file is opened once, without following links; its size is compared with the one recorded before it is read,
its sha256 before it is understood. An ensemble is loaded whole or not at all, and no pickle is executed on the way.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import EllipsisType

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

from models.architectures import PROGRAMS, build, load_weights
from models.description import FILE, MAX_BYTES, Description, MemberFile, parse, write
from models.errors import DescriptionError, EnsembleNameError, FileError, MissingEnsembleError, ModelError
from models.programs import read_program
from smoothcert.engine.ensemble import Ensemble, Member
from smoothcert.engine.form import prepare
from smoothcert.engine.normalisation import normalised
from smoothcert.noise import resolve

ZOO = Path(__file__).parent / "zoo"
CARD = "README.md"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def load(
    name: str,
    *,
    zoo: Path = ZOO,
    device: str = "cpu",
    precision: str = "float32",
    batch: int = 256,
    voting: str | None = None,
    consensus: int | EllipsisType | None = ...,
    optimise: bool = True,
    allowed_imports: frozenset[str] = frozenset(),
) -> Ensemble:
    """The ensemble of this name, checked, on its device and ready for `batch` images at a time.

    `voting` and `consensus` replace what ensemble.toml says. Raises a RegistryError that names the file and what was
    seen in it.
    """
    folder = _folder(zoo, name)
    description = _describe(folder)
    contents = [_read_member(folder, member) for member in description.members]
    members = []
    for file, data in zip(description.members, contents, strict=True):
        with blaming(folder / file.file):
            identity = description.identity(file)
            network = _network(description, file, data, allowed_imports)
            form = prepare(
                network,
                name=f"{name}/{file.file}",
                classes=len(description.classes),
                input_shape=description.input_shape,
                batch=batch,
                device=device,
                precision=precision,
                optimise=optimise,
            )
            members.append(Member(file.file, identity, network, form))
    ensemble = Ensemble(
        name,
        tuple(members),
        description.classes,
        description.input_shape,
        resolve(sigma=description.sigma),
        description.voting,
        description.consensus,
        description.weights,
    )
    return ensemble.with_(voting=voting, consensus=consensus)


def describe(name: str, *, zoo: Path = ZOO) -> Description:
    """What the ensemble says of itself, its files checked against it; no network is built."""
    folder = _folder(zoo, name)
    description = _describe(folder)
    for member in description.members:
        _read_member(folder, member)
    return description


def names(*, zoo: Path = ZOO) -> list[str]:
    """The names of all ensembles in the zoo."""
    if not zoo.is_dir():
        return []
    return sorted(entry.name for entry in zoo.iterdir() if _NAME.fullmatch(entry.name) and (entry / FILE).is_file())


def rewrite(name: str, description: Description, *, zoo: Path = ZOO) -> None:
    """Replace the ensemble.toml of an ensemble, whole or not at all."""
    partial = zoo / f".{name}.partial"  # not in the folder, where a loader would find a file too many
    try:
        with writing(zoo / name / FILE):
            partial.write_text(write(description))
            partial.replace(_folder(zoo, name) / FILE)
    finally:
        partial.unlink(missing_ok=True)


def check_name(name: str) -> None:
    """Refuse what is no name of a folder."""
    if not _NAME.fullmatch(name):
        raise EnsembleNameError(f"{name!r} is no name: letters, digits, '.', '_' and '-', at most 64")


def _folder(zoo: Path, name: str) -> Path:
    check_name(name)
    folder = zoo / name
    if not (folder / FILE).is_file():
        raise MissingEnsembleError(f"no ensemble {name!r} in {zoo}; there are: {', '.join(names(zoo=zoo)) or 'none'}")
    if folder.is_symlink():
        raise FileError(f"{folder} is a link")
    return folder


def _describe(folder: Path) -> Description:
    path = folder / FILE
    try:
        description = parse(_read(path, limit=MAX_BYTES).decode())
    except UnicodeDecodeError as error:
        raise DescriptionError(f"{path}: not UTF-8: {error}") from error
    except DescriptionError as error:
        raise DescriptionError(f"{path}: {error}") from error
    extra = sorted({entry.name for entry in folder.iterdir()} - {FILE, CARD, *(m.file for m in description.members)})
    if extra:
        raise FileError(f"{folder}: files that {FILE} does not name: {', '.join(extra)}")
    card = folder / CARD
    if card.is_symlink() or (card.exists() and not card.is_file()):
        raise FileError(f"{card}: not a plain file")
    return description


def _read_member(folder: Path, member: MemberFile) -> bytes:
    path = folder / member.file
    data = _read(path, size=member.bytes)
    seen = hashlib.sha256(data).hexdigest()
    if seen != member.sha256:
        raise FileError(f"{path}: sha256 is {seen}, but {FILE} says {member.sha256}")
    return data


def _read(path: Path, *, size: int | None = None, limit: int | None = None) -> bytes:
    """The bytes of a plain file of exactly `size`, or at most `limit`, bytes."""
    descriptor = _open(path)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileError(f"{path}: not a plain file")
        if size is not None and status.st_size != size:
            raise FileError(f"{path}: {status.st_size} bytes, but {FILE} says {size}")
        if limit is not None and status.st_size > limit:
            raise FileError(f"{path}: {status.st_size} bytes, more than {limit}")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(status.st_size)
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """A descriptor of what lies here, whatever it is, if it is no link."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise FileError(f"{path}: missing") from error
    except OSError as error:
        reason = "a link, which may lead out of the folder" if path.is_symlink() else str(error)
        raise FileError(f"{path}: {reason}") from error


def _network(description: Description, member: MemberFile, data: bytes, allowed_imports: frozenset[str]) -> nn.Module:
    identity = description.identity(member)
    if identity.architecture in PROGRAMS:
        return normalised(read_program(identity.architecture, data), identity.normalisation)
    network = build(
        identity.architecture,
        classes=len(description.classes),
        normalisation=identity.normalisation,
        allowed_imports=allowed_imports,
    )
    load_weights(network, read_tensors(data))
    return network


def read_tensors(data: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        return safetensors.torch.load(data)
    except SafetensorError as error:
        raise FileError(f"not a safetensors file: {error}") from error
    except KeyError as error:
        raise FileError(f"tensors of dtype {error}, which torch does not have") from error


@contextmanager
def blaming(path: Path) -> Iterator[None]:
    """Put the path of a file before the message of whatever is wrong with it."""
    try:
        yield
    except ModelError as error:
        raise type(error)(f"{path}: {error}") from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name what could not be written: a full disk does not say which file it was."""
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot write {path}: {error}; what was there before is unharmed") from error
