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

from models.architectures import ACCEPTED, PROGRAMS
from models.description import FILE, DenoiserDefaults, Description, MemberFile, read_noise, write
from models.errors import EnsembleNameError, FileError, RegistryError
from models.programs import is_exported, is_torchscript, whole_onnx
from models.registry import ASK_NOBODY, ZOO, blaming, check_name, load, read_tensors, writing
from models.remote import take_in
from models.toml import TomlTable, read_toml
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import ClassCountError
from smoothcert.engine.hub.pretrained import Pretrained
from smoothcert.engine.hub.reference import is_reference
from smoothcert.engine.hub.stated import Stated
from smoothcert.engine.normalisation import Normalisation
from smoothcert.engine.remote.endpoint import RemotePolicy
from smoothcert.engine.remote.member import discover
from smoothcert.errors import SmoothcertError
from smoothcert.noise import Noise, resolve

DENOISED = "denoised"
"""The method of an ensemble of denoisers, which may have been trained by different ones."""
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""The classes where neither the user nor a configuration names any."""
CIFAR10_SHAPE = (3, 32, 32)
"""The shape of images where neither the user nor a configuration names any."""
_GIVE_NOISE = "give the noise under which the ensemble is to be certified, by --sigma or --noise"


@dataclass(frozen=True)
class Addition:
    """The properties of a new ensemble. What is None is taken from the records and configurations of the members.

    `sigma` is short for Gaussian noise; `noise` names any.
    """

    classes: tuple[str, ...] | None = None
    input_shape: tuple[int, int, int] | None = None
    architecture: str | None = None
    noise: Noise | None = None
    sigma: float | None = None
    method: str | None = None
    normalisation: Normalisation | None = None
    classifier: Path | str | None = None
    """The file of a classifier, if the members are denoisers in front of it; `architecture` is then its own."""
    denoiser: str | None = None
    """The architecture of the denoisers, where their records name none."""
    evaluation: str = "0::20"


def add(
    name: str,
    files: Sequence[Path | str],
    addition: Addition,
    *,
    zoo: Path = ZOO,
    allowed_imports: frozenset[str] = frozenset(),
    endpoints: Sequence[str] = (),
    rows: int | None = None,
    remote: RemotePolicy = ASK_NOBODY,
) -> Ensemble:
    """Make the folder of an ensemble from state dicts, safetensors, TorchScript, exported programs, ONNX and endpoints.

    `endpoints` are the URLs of models of the Open Inference Protocol, which follow the files in order. They are asked
    for `rows` images at a time, if they do not say how many they take.

    A file may also be the name of a model on the hub, or a folder in the hub's layout (see `Pretrained.open`).
    The folder is built and loaded under another name, and renamed only if that succeeds.
    """
    require_free(name, zoo)
    classes, input_shape = addition.classes or CIFAR10, addition.input_shape or CIFAR10_SHAPE
    found = [
        discover(url, classes=len(classes), input_shape=input_shape, policy=remote, rows=rows) for url in endpoints
    ]
    with writing(zoo / name):
        zoo.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".adding-", dir=zoo) as temporary:
            folder = Path(temporary) / name
            folder.mkdir()
            taken = [_take_in(file, folder) for file in files]
            taken += [Taken(take_in(endpoint, folder), endpoint.url) for endpoint in found]
            behind = None if addition.classifier is None else _take_in(addition.classifier, folder)
            (folder / FILE).write_text(write(_described(addition, taken, behind)))
            sources = {folder / each.member.file: each.source for each in (*taken, *([behind] if behind else []))}
            assumed = addition.classes is None and not any(each.stated for each in ([behind] if behind else taken))
            with _renaming({**sources, folder: zoo / name}), _naming_classes(assumed):
                ensemble = load(name, zoo=Path(temporary), allowed_imports=allowed_imports, remote=remote)
            folder.rename(zoo / name)
    return ensemble


@contextmanager
def _renaming(paths: Mapping[Path, Path | str]) -> Iterator[None]:
    """Let errors name the paths that the user knows in place of those in the temporary folder, longest first."""
    try:
        yield
    except SmoothcertError as error:
        message = str(error)
        for path, known in paths.items():
            message = message.replace(str(path), str(known))
        raise type(error)(message) from error


@contextmanager
def _naming_classes(assumed: bool) -> Iterator[None]:
    """Explain a wrong number of logits if the classes were assumed: the error then says how to name them."""
    try:
        yield
    except ClassCountError as error:
        if not assumed:
            raise
        raise ClassCountError(
            f"{error}; those of CIFAR-10 were assumed, since none are named: --classes takes others, or their number"
        ) from error


def require_free(name: str, zoo: Path) -> None:
    """Refuse a name that is not valid or is taken."""
    check_name(name)
    if (zoo / name).exists():
        raise EnsembleNameError(f"{zoo / name} exists already")


@dataclass(frozen=True)
class Taken:
    """A file that was copied into the folder of a new ensemble, and what its configuration says of it."""

    member: MemberFile
    source: Path | str
    stated: Stated | None = None


def _take_in(source: Path | str, folder: Path) -> Taken:
    """Copy a file into the folder of a new ensemble; a state dict and a model of the hub become safetensors."""
    if is_reference(str(source)) or Path(source).is_dir():
        found = Pretrained.open(source)
        data = found.safetensors()
        member = _written(folder / f"{found.stem}.safetensors", data, found.architecture)
        return Taken(replace(member, training=training_record(data)), source, found.stated)
    path = Path(source)
    with blaming(path):
        kind, data = converted(path)
        suffix = {"torchscript": ".pt", "exported": ".pt2", "onnx": ".onnx"}.get(kind, ".safetensors")
        member = _written(folder / (path.stem + suffix), data, kind if kind in PROGRAMS else None)
        return Taken(replace(member, training=training_record(data) if kind == "weights" else {}), source)


def _written(target: Path, data: bytes, architecture: str | None) -> MemberFile:
    if target.exists():
        raise FileError(f"there is a second file of the name {target.name}")
    target.write_bytes(data)
    return MemberFile(target.name, hashlib.sha256(data).hexdigest(), len(data), architecture)


def converted(source: Path) -> tuple[str, bytes]:
    """The kind of a file ("weights" or one of PROGRAMS) and its bytes; a state dict becomes safetensors."""
    if not source.is_file():
        raise FileError("missing, or not a file")
    if source.suffix == ".onnx":
        return "onnx", whole_onnx(source)
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
    raise FileError("neither .safetensors, a state dict (.pt, .pth), TorchScript, an exported program nor .onnx")


def _state_dict(data: bytes) -> dict[str, Tensor]:
    """The tensors of a state dict, or of a checkpoint that has one under `state_dict`; nothing else is unpickled."""
    try:
        content = torch.load(BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a file of another format
        # Torch's own message advises to unpickle what it refuses, which runs whatever the file says.
        raise FileError(
            "not a state dict that can be read without unpickling; save one by torch.save(model.state_dict(), FILE), "
            "or the whole network by torch.export or torch.jit"
        ) from error
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not _is_state_dict(content):
        raise FileError(f"a {type(content).__name__} is not a state dict of tensors{_entries_at_fault(content)}")
    # `nn.DataParallel` puts "module." before every name.
    tensors = {str(key).removeprefix("module."): tensor for key, tensor in content.items()}
    if len(tensors) != len(content):
        raise FileError("a state dict in which a name occurs both with and without module. before it")
    return tensors


def _is_state_dict(content: object) -> bool:
    return isinstance(content, dict) and all(isinstance(tensor, Tensor) for tensor in content.values())


def _entries_at_fault(content: object) -> str:
    """The end of the sentence about what is not a state dict: the entries that are one, or one that is no tensor."""
    if not isinstance(content, dict):
        return ""
    if inside := [repr(key) for key, entry in content.items() if entry and _is_state_dict(entry)]:
        return f"; its entry {' or '.join(inside)} is one: save that alone"
    key, entry = next((key, entry) for key, entry in content.items() if not isinstance(entry, Tensor))
    return f"; its entry {key!r} is of type {type(entry).__name__}"


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


def _described(addition: Addition, taken: Sequence[Taken], behind: Taken | None) -> Description:
    classifiers = list(taken) if behind is None else [behind]
    normalisation, files = _normalised(addition, classifiers)
    members = files if behind is None else [each.member for each in taken]
    description = Description(
        architecture=addition.architecture or _architecture(files),
        classes=addition.classes or _stated_classes(classifiers),
        input_shape=addition.input_shape or _stated_shape(classifiers),
        noise=resolve(addition.noise, addition.sigma) or _agreed_noise(members),
        members=tuple(members),
        method=addition.method or (DENOISED if behind else _agreed("method", members, "unknown")),
        evaluation=addition.evaluation,
        normalisation=normalisation,
    )
    if behind is None:
        if addition.denoiser is not None:
            raise RegistryError(f"denoiser {addition.denoiser} is given without a classifier: name it by --classifier")
        return replace(description, members=_without(description.architecture, members))
    denoisers = [replace(member, architecture=_denoiser_of(member, addition)) for member in members]
    default = str(denoisers[0].architecture) if denoisers else ""
    (classifier,) = _without(description.architecture, files)
    return replace(
        description,
        members=_without(default, denoisers),
        classifier=classifier,
        denoiser=DenoiserDefaults(default),
    )


def _normalised(addition: Addition, taken: Sequence[Taken]) -> tuple[Normalisation | None, list[MemberFile]]:
    """The normalisation of the ensemble, and the files, each with its own where these differ."""
    files = [each.member for each in taken]
    if addition.normalisation is not None:
        return addition.normalisation, files
    for each in taken:
        if each.stated is not None and each.stated.normalisation is None:
            raise RegistryError(f"{each.source} does not say how images are normalised: give --mean and --std")
    own = [None if each.stated is None else each.stated.normalisation for each in taken]
    if len(set(own)) <= 1:
        return (own[0] if own else None), files
    return None, [replace(file, normalisation=each) for file, each in zip(files, own, strict=True)]


def _architecture(files: Sequence[MemberFile]) -> str:
    """The architecture of the first file, where each names its own; else the one that all records agree on."""
    if files and all(file.architecture for file in files):
        return str(files[0].architecture)
    return _agreed("architecture", files, accepted=f", one of {ACCEPTED}")


def _stated_classes(taken: Sequence[Taken]) -> tuple[str, ...]:
    """The classes that the configurations name; numbers, where they only say how many there are."""
    stated = [each.stated.classes for each in taken if each.stated is not None]
    if not stated:
        return CIFAR10
    named = {classes for classes in stated if not isinstance(classes, int)}
    counts = {classes if isinstance(classes, int) else len(classes) for classes in stated}
    if len(named) > 1 or len(counts) > 1:
        raise RegistryError("the configurations of the members name different classes: give them by --classes")
    return named.pop() if named else tuple(map(str, range(counts.pop())))


def _stated_shape(taken: Sequence[Taken]) -> tuple[int, int, int]:
    shapes = {each.stated.input_shape for each in taken if each.stated is not None}
    if len(shapes) > 1:
        listed = ", ".join(map(str, sorted(shapes)))
        raise RegistryError(f"the configurations of the members are for images {listed}: give one by --input-shape")
    return shapes.pop() if shapes else CIFAR10_SHAPE


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


def _agreed(key: str, members: Sequence[MemberFile], default: str | None = None, *, accepted: str = "") -> str:
    """The value that the training records of all members have for this key."""
    found = {
        TomlTable(_where(member), member.training).find(key, str) or _of_the_file(key, member) for member in members
    }
    if found == {None} and default is not None:
        return default
    if len(found) != 1 or found == {None}:
        seen = "the files do not name it" if found == {None} else f"the files say {', '.join(sorted(map(str, found)))}"
        raise RegistryError(f"{key} is not given, and {seen}: name it by --{key.replace('_', '-')}{accepted}")
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
