"""Ensembles on disk.

The folder `<zoo>/<name>` holds `ensemble.toml`, the files of the members, optionally a card (README.md), and nothing
else. A member file is opened once, without following links. Its size is compared with the recorded one before it is
read, and its sha256 before it is parsed. A member that is a program is vetted, first in a confined child process. An
ensemble is loaded whole or not at all, and no pickle is ever executed.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import EllipsisType

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from models.architectures import PROGRAMS, build, build_denoiser, load_weights
from models.confinement import Suspect, try_out
from models.description import FILE, MAX_BYTES, Description, MemberFile, parse, write
from models.errors import DescriptionError, EnsembleNameError, FileError, MissingEnsembleError
from models.programs import read_program
from models.remote import REMOTE, connect
from smoothcert.engine.denoised import Denoised, Shared, check_classifier, check_denoiser
from smoothcert.engine.ensemble import Ensemble, Member
from smoothcert.engine.form import prepare
from smoothcert.engine.hub.pretrained import build as build_of_library
from smoothcert.engine.hub.pretrained import config_of, is_of_library
from smoothcert.engine.memory import fitting_batch
from smoothcert.engine.normalisation import Normalisation, normalised
from smoothcert.engine.remote.endpoint import RemotePolicy
from smoothcert.errors import SmoothcertError

ZOO = Path(__file__).parent / "zoo"
"""The folder of the ensembles that come with the project."""
CARD = "README.md"
ASK_NOBODY = RemotePolicy()
"""No host is allowed."""
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
    runtime: str = "torch",
    allowed_imports: frozenset[str] = frozenset(),
    remote: RemotePolicy = ASK_NOBODY,
) -> Ensemble:
    """The ensemble of this name, checked, on its device and ready for `batch` images at a time.

    `voting` and `consensus` replace those of ensemble.toml. `remote` says which endpoints may be asked. Raises a
    SmoothcertError that names the file and what is wrong with it: a RegistryError for the folder, an ArchitectureError,
    ProgramError, RemoteError or MemberError for a network.
    """
    folder = _folder(zoo, name)
    description = _describe(folder)
    contents = {file.file: _read_member(folder / file.file, file) for file in description.files}
    _try_out_programs(folder, description, contents)
    classifier = _shared_classifier(folder, description, contents, allowed_imports, remote)
    members = []
    for file in description.members:
        with blaming(folder / file.file):
            # Its bytes are let go at once: those of large networks would double the memory that loading takes.
            own = _read_stage(description, file, contents.pop(file.file), allowed_imports, remote)
            network = own if classifier is None else Denoised(own, classifier)
            form = prepare(
                network,
                name=f"{name}/{file.file}",
                classes=len(description.classes),
                input_shape=description.input_shape,
                batch=fitting_batch(batch, description.input_shape, torch.device(device)),
                device=device,
                precision=precision,
                optimise=optimise,
                runtime=runtime,
            )
            members.append(Member(file.file, description.identity(file), network, form))
    ensemble = Ensemble(
        name,
        tuple(members),
        description.classes,
        description.input_shape,
        description.noise,
        description.voting,
        description.consensus,
        description.weights,
        limits=description.limits,
        superclasses=description.levels,
    )
    return ensemble.with_(voting=voting, consensus=consensus)


def describe(name: str, *, zoo: Path = ZOO) -> Description:
    """The description of an ensemble, after its files were checked against it; no network is built."""
    folder = _folder(zoo, name)
    description = _describe(folder)
    for file in description.files:
        _read_member(folder / file.file, file)
    return description


def names(*, zoo: Path = ZOO) -> list[str]:
    """The names of all ensembles in the zoo."""
    if not zoo.is_dir():
        return []
    return sorted(entry.name for entry in zoo.iterdir() if _NAME.fullmatch(entry.name) and (entry / FILE).is_file())


def rewrite(name: str, description: Description, *, zoo: Path = ZOO) -> None:
    """Replace the ensemble.toml of an ensemble, whole or not at all."""
    partial = zoo / f".{name}.partial"  # outside the folder, where a loader would refuse it as an extra file
    try:
        with writing(zoo / name / FILE):
            partial.write_text(write(description))
            partial.replace(_folder(zoo, name) / FILE)
    finally:
        partial.unlink(missing_ok=True)


def check_name(name: str) -> None:
    """Refuse a name that is not a plain name of a folder."""
    if not _NAME.fullmatch(name):
        raise EnsembleNameError(
            f"{name!r} is not a name: it must begin with a letter or digit and have at most 64 letters, digits, "
            f"'.', '_' and '-'"
        )


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
    extra = sorted({entry.name for entry in folder.iterdir()} - {FILE, CARD, *(f.file for f in description.files)})
    if extra:
        raise FileError(f"{folder}: files that {FILE} does not name: {', '.join(extra)}")
    card = folder / CARD
    if card.is_symlink() or (card.exists() and not card.is_file()):
        raise FileError(f"{card}: not a plain file")
    return description


def _read_member(path: Path, member: MemberFile) -> bytes:
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
    """A descriptor of the entry at this path, whatever its kind, unless it is a link."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise FileError(f"{path}: missing") from error
    except OSError as error:
        reason = "a link, which may lead out of the folder" if path.is_symlink() else str(error)
        raise FileError(f"{path}: {reason}") from error


def _try_out_programs(folder: Path, description: Description, contents: Mapping[str, bytes]) -> None:
    """Have a confined child process read and run the members that are programs, before this process reads them."""
    programs = [
        (folder / file.file, Suspect(stage.architecture, contents[file.file], description.input_shape))
        for file in description.files
        if (stage := description.stage(file)).architecture in PROGRAMS
    ]
    for (path, _), error in zip(programs, try_out([suspect for _, suspect in programs]), strict=True):
        with blaming(path):
            if error is not None:
                raise error


def _shared_classifier(
    folder: Path,
    description: Description,
    contents: Mapping[str, bytes],
    allowed_imports: frozenset[str],
    remote: RemotePolicy,
) -> nn.Module | None:
    """The classifier behind the denoisers, for all of them; None where the members are classifiers themselves."""
    file = description.classifier
    if file is None:
        return None
    with blaming(folder / file.file):
        classifier = _read_stage(description, file, contents[file.file], allowed_imports, remote)
        probe, classes = torch.zeros(2, *description.input_shape), len(description.classes)
        check_classifier(classifier, probe, classes=classes, name=file.file)
    return Shared(classifier)


def _read_stage(
    description: Description, file: MemberFile, data: bytes, allowed_imports: frozenset[str], remote: RemotePolicy
) -> nn.Module:
    """The network of one file: a classifier, or a denoiser."""
    stage = description.stage(file)
    if description.classifier is None or file is description.classifier:
        return read_network(
            stage.architecture,
            data,
            classes=len(description.classes),
            normalisation=stage.normalisation,
            allowed_imports=allowed_imports,
            remote=remote,
        )
    channels = description.input_shape[0]
    denoiser = build_denoiser(stage.architecture, channels=channels, allowed_imports=allowed_imports)
    load_weights(denoiser, read_tensors(data))
    check_denoiser(denoiser, torch.zeros(2, *description.input_shape), name=file.file)
    return denoiser


def read_network(
    architecture: str,
    data: bytes,
    *,
    classes: int,
    normalisation: Normalisation | None = None,
    allowed_imports: frozenset[str] = frozenset(),
    remote: RemotePolicy = ASK_NOBODY,
) -> nn.Module:
    """The classifier in the bytes of a file. A program must have been tried out before."""
    if architecture == REMOTE:
        return normalised(connect(data, classes=classes, policy=remote), normalisation)
    if architecture in PROGRAMS:
        return normalised(read_program(architecture, data), normalisation)
    if is_of_library(architecture):
        found = build_of_library(architecture, config_of(data), read_tensors(data), classes=classes)
        return normalised(found, normalisation)
    network = build(architecture, classes=classes, normalisation=normalisation, allowed_imports=allowed_imports)
    load_weights(network, read_tensors(data), classes=classes)
    return network


def read_tensors(data: bytes) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load(data)
    except SafetensorError as error:
        raise FileError(f"not a safetensors file: {error}") from error
    except KeyError as error:
        raise FileError(f"tensors of dtype {error}, which torch does not have") from error


@contextmanager
def blaming(path: Path) -> Iterator[None]:
    """Put the path of a file before the message of every error about it."""
    try:
        yield
    except SmoothcertError as error:
        raise type(error)(f"{path}: {error}") from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file that could not be written: the error of a full disk does not."""
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot write {path}: {error}; what was there before is unharmed") from error
