"""`add`: make a new ensemble in the zoo from the files of its members."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import safetensors.torch
import tomlkit
import torch
from torch import Tensor

from models.architectures import PROGRAMS
from models.description import FILE, DenoiserDefaults, Description, MemberFile, read_noise, write
from models.errors import EnsembleNameError, FileError, RegistryError
from models.programs import is_exported, is_torchscript
from models.registry import ASK_NOBODY, ZOO, blaming, check_name, load, read_tensors, writing
from models.remote import take_in
from models.toml import TomlTable, read_toml
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.normalisation import Normalisation
from smoothcert.engine.remote.endpoint import RemotePolicy
from smoothcert.engine.remote.member import discover
from smoothcert.errors import SmoothcertError
from smoothcert.noise import Noise, resolve

DENOISED = "denoised"
"""The method of an ensemble of denoisers, which may have been trained by different ones."""
_GIVE_NOISE = "give the noise under which the ensemble is to be certified, by --sigma or --noise"


@dataclass(frozen=True)
class Addition:
    """The properties of a new ensemble. What is None is taken from the training records of the members.

    `sigma` is short for Gaussian noise; `noise` names any.
    """

    classes: tuple[str, ...]
    input_shape: tuple[int, int, int] = (3, 32, 32)
    architecture: str | None = None
    noise: Noise | None = None
    sigma: float | None = None
    method: str | None = None
    normalisation: Normalisation | None = None
    classifier: Path | None = None
    """The file of a classifier, if the members are denoisers in front of it; `architecture` is then its own."""
    denoiser: str | None = None
    """The architecture of the denoisers, where their records name none."""
    evaluation: str = "0::20"


def add(
    name: str,
    files: Sequence[Path],
    addition: Addition,
    *,
    zoo: Path = ZOO,
    allowed_imports: frozenset[str] = frozenset(),
    endpoints: Sequence[str] = (),
    rows: int | None = None,
    remote: RemotePolicy = ASK_NOBODY,
) -> Ensemble:
    """Make the folder of an ensemble from state dicts, safetensors, TorchScript or exported programs, and of endpoints.

    `endpoints` are the URLs of models of the Open Inference Protocol, which follow the files in order. They are asked
    for `rows` images at a time, if they do not say how many they take.

    The folder is built and loaded under another name, and renamed only if that succeeds.
    """
    require_free(name, zoo)
    found = [
        discover(url, classes=len(addition.classes), input_shape=addition.input_shape, policy=remote, rows=rows)
        for url in endpoints
    ]
    with writing(zoo / name):
        zoo.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".adding-", dir=zoo) as temporary:
            folder = Path(temporary) / name
            folder.mkdir()
            members = [_take_in(file, folder) for file in files]
            members += [take_in(endpoint, folder) for endpoint in found]
            classifier = None if addition.classifier is None else _take_in(addition.classifier, folder)
            (folder / FILE).write_text(write(_described(addition, members, classifier)))
            sources = {folder / member.file: file for member, file in zip(members, files, strict=False)}
            if classifier is not None and addition.classifier is not None:
                sources[folder / classifier.file] = addition.classifier
            with _renaming({**sources, folder: zoo / name}):
                ensemble = load(name, zoo=Path(temporary), allowed_imports=allowed_imports, remote=remote)
            folder.rename(zoo / name)
    return ensemble


@contextmanager
def _renaming(paths: Mapping[Path, Path]) -> Iterator[None]:
    """Let errors name the paths that the user knows in place of those in the temporary folder, longest first."""
    try:
        yield
    except SmoothcertError as error:
        message = str(error)
        for path, known in paths.items():
            message = message.replace(str(path), str(known))
        raise type(error)(message) from error


def require_free(name: str, zoo: Path) -> None:
    """Refuse a name that is not valid or is taken."""
    check_name(name)
    if (zoo / name).exists():
        raise EnsembleNameError(f"{zoo / name} exists already")


def _take_in(source: Path, folder: Path) -> MemberFile:
    """Copy a file into the folder of a new ensemble; a state dict becomes safetensors."""
    with blaming(source):
        kind, data = converted(source)
        suffix = {"torchscript": ".pt", "exported": ".pt2"}.get(kind, ".safetensors")
        target = folder / (source.stem + suffix)
        if target.exists():
            raise FileError(f"there is a second file of the name {target.name}")
        target.write_bytes(data)
        return MemberFile(
            file=target.name,
            sha256=hashlib.sha256(data).hexdigest(),
            bytes=len(data),
            architecture=kind if kind in PROGRAMS else None,
            training=training_record(data) if kind == "weights" else {},
        )


def converted(source: Path) -> tuple[str, bytes]:
    """The kind of a file ("weights", "torchscript" or "exported") and its bytes; a state dict becomes safetensors."""
    if not source.is_file():
        raise FileError("missing, or not a file")
    data = source.read_bytes()
    if source.suffix == ".safetensors":
        read_tensors(data)
        return "weights", data
    if is_exported(data):
        return "exported", data
    if is_torchscript(data):
        return "torchscript", data
    if source.suffix in (".pt", ".pth"):
        return "weights", _as_safetensors(_state_dict(data))
    raise FileError("neither .safetensors, a state dict (.pt, .pth), TorchScript nor an exported program")


def _state_dict(data: bytes) -> dict[str, Tensor]:
    """The tensors of a state dict, or of a checkpoint that has one under `state_dict`; nothing else is unpickled."""
    try:
        content = torch.load(BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a file of another format
        raise FileError(f"not a state dict that can be read without unpickling: {error}") from error
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict) or not all(isinstance(tensor, Tensor) for tensor in content.values()):
        raise FileError(f"a {type(content).__name__} is not a state dict of tensors")
    # `nn.DataParallel` puts "module." before every name.
    tensors = {str(key).removeprefix("module."): tensor for key, tensor in content.items()}
    if len(tensors) != len(content):
        raise FileError("a state dict in which a name occurs both with and without module. before it")
    return tensors


def _as_safetensors(tensors: Mapping[str, Tensor]) -> bytes:
    try:
        return safetensors.torch.save({name: tensor.clone().contiguous() for name, tensor in tensors.items()})
    except Exception as error:  # sparse, quantised and other tensors fail in different ways
        raise FileError(f"a state dict that safetensors cannot hold: {type(error).__name__}: {error}") from error


def training_record(data: bytes) -> dict[str, Any]:
    """The training record in the header of a safetensors file, without nulls; empty if there is none."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    try:
        record = json.loads(header.get("__metadata__", {}).get("record", "{}"))
    except (ValueError, RecursionError) as error:
        raise FileError(f"the training record in its header is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise FileError(f"the training record in its header is of type {type(record).__name__}, not an object")
    present = {key: value for key, value in record.items() if value is not None}
    try:
        read_toml(tomlkit.dumps(present).encode().decode())
    except (ValueError, RecursionError) as error:
        raise FileError(f"the training record in its header does not fit into {FILE}: {error}") from error
    return present


def _described(addition: Addition, members: Sequence[MemberFile], classifier: MemberFile | None) -> Description:
    description = Description(
        architecture=addition.architecture or _agreed("architecture", [classifier] if classifier else members),
        classes=addition.classes,
        input_shape=addition.input_shape,
        noise=resolve(addition.noise, addition.sigma) or _agreed_noise(members),
        members=tuple(members),
        method=addition.method or (DENOISED if classifier else _agreed("method", members, "unknown")),
        evaluation=addition.evaluation,
        normalisation=addition.normalisation,
    )
    if classifier is None:
        if addition.denoiser is not None:
            raise RegistryError(f"denoiser {addition.denoiser} is given without a classifier: name it by --classifier")
        return replace(description, members=_without(description.architecture, members))
    denoisers = [replace(member, architecture=_denoiser_of(member, addition)) for member in members]
    default = str(denoisers[0].architecture) if denoisers else ""
    (classifier,) = _without(description.architecture, [classifier])
    return replace(
        description,
        members=_without(default, denoisers),
        classifier=classifier,
        denoiser=DenoiserDefaults(default),
    )


def _without(architecture: str, files: Sequence[MemberFile]) -> tuple[MemberFile, ...]:
    """The files, with their architecture stated only where it is not this one."""
    return tuple(replace(file, architecture=None) if file.architecture == architecture else file for file in files)


def _denoiser_of(member: MemberFile, addition: Addition) -> str:
    """The architecture of a denoiser, by its training record or as it was given."""
    recorded: str | None = TomlTable(_where(member), member.training).find("architecture", str)
    architecture = member.architecture or recorded or addition.denoiser
    if architecture is None:
        raise RegistryError(
            f"{member.file} has no training record that names the architecture of a denoiser: name it by --denoiser"
        )
    return architecture


def _agreed(key: str, members: Sequence[MemberFile], default: str | None = None) -> str:
    """The value that the training records of all members have for this key."""
    found = {
        TomlTable(_where(member), member.training).find(key, str) or _of_the_file(key, member) for member in members
    }
    if found == {None} and default is not None:
        return default
    if len(found) != 1 or found == {None}:
        raise RegistryError(f"{key} is not given, and the members' records say {sorted(map(str, found))}")
    return str(found.pop())


def _agreed_noise(members: Sequence[MemberFile]) -> Noise:
    """The noise in the training records of all members."""
    records = [
        {key: member.training[key] for key in ("sigma", "noise") if key in member.training} for member in members
    ]
    if not records or not records[0] or any(record != records[0] for record in records):
        found = sorted({json.dumps(record) for record in records})
        raise RegistryError(f"noise is not given, and the members' records say {', '.join(found)}: {_GIVE_NOISE}")
    if records[0].get("sigma") == 0:
        raise RegistryError(f"the members were trained without noise (their records say sigma 0): {_GIVE_NOISE}")
    return read_noise(TomlTable(_where(members[0]), records[0]))


def _of_the_file(key: str, member: MemberFile) -> str | None:
    """The value that follows from the kind of the file: a program is its own architecture."""
    return member.architecture if key == "architecture" else None


def _where(member: MemberFile) -> str:
    return f"training record of {member.file}: "
