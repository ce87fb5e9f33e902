from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from models import addition
from models.architectures import ARCHITECTURES, DENOISERS
from models.commands.options import AllowHost, AllowImport, NoiseText, Sigma, Zoo, chosen_noise, remote_policy
from models.registry import ZOO
from smoothcert.engine.case import ensemble_record
from smoothcert.engine.composition import MAX_CLASSES
from smoothcert.engine.normalisation import Normalisation
from smoothcert.figures import counted
from smoothcert.remarks import unpinned


def add(
    name: Annotated[str, typer.Argument(help="name of the new ensemble")],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="state dicts, .safetensors, TorchScript, exported programs, .onnx, hf://ORGANISATION/NAME@REVISION, "
            "timm/NAME@REVISION, or folders in the hub's layout"
        ),
    ] = None,
    architecture: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(ARCHITECTURES)}, torchvision/NAME, timm/NAME, module:callable, a program"),
    ] = None,
    classifier: Annotated[
        str | None,
        typer.Option(
            help="the classifier behind the members, which then are denoisers; --architecture is that of the classifier"
        ),
    ] = None,
    denoiser: Annotated[
        str | None, typer.Option(help=f"the architecture of the denoisers: {', '.join(DENOISERS)}, module:callable")
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="cifar10, a number, names like cat,dog, or a file with a name in each line",
            show_default="by the model's configuration, or cifar10",
        ),
    ] = None,
    input_shape: Annotated[
        str | None,
        typer.Option(help="channels, height, width", show_default="by the model's configuration, or 3,32,32"),
    ] = None,
    sigma: Sigma = None,
    noise: NoiseText = None,
    method: Annotated[str | None, typer.Option(help="the method of training")] = None,
    mean: Annotated[
        str | None, typer.Option(help="the means of the normalisation, one for each channel, like .485,.456,.406")
    ] = None,
    std: Annotated[
        str | None, typer.Option(help="the standard deviations of the normalisation, like .229,.224,.225")
    ] = None,
    evaluation: Annotated[str, typer.Option(help="test images kept for evaluation")] = "0::20",
    remote: Annotated[
        list[str] | None,
        typer.Option(
            help="a member that runs elsewhere, like http://HOST:PORT/v2/models/NAME (Open Inference Protocol)"
        ),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="the most images of a request to a remote member; 64 if left out")
    ] = None,
    allow_import: AllowImport = None,
    allow_host: AllowHost = None,
    zoo: Zoo = ZOO,
) -> None:
    """Make an ensemble of the files of its members, and of members that run at endpoints.

    The noise is that of training; without --sigma or --noise it is taken from the training records in the files.
    """
    properties = addition.Addition(
        classes=None if classes is None else _classes(classes),
        input_shape=None if input_shape is None else _shape(input_shape),
        architecture=architecture,
        noise=chosen_noise(noise, sigma),
        method=method,
        normalisation=_normalisation(mean, std),
        classifier=classifier,
        denoiser=denoiser,
        evaluation=evaluation,
    )
    if not (files or remote):
        raise typer.BadParameter("an ensemble needs files of members, or --remote")
    ensemble = addition.add(
        name,
        files or [],
        properties,
        zoo=zoo,
        allowed_imports=frozenset(allow_import or ()),
        endpoints=remote or [],
        rows=rows,
        remote=remote_policy(allow_host),
    )
    typer.echo(f"{name}: {counted(len(ensemble.members), 'member')}, digest {ensemble.digest}")
    if unnamed := ensemble_record(ensemble).remote:
        typer.echo(unpinned(unnamed, members=len(ensemble.members)))


def _classes(text: str) -> tuple[str, ...]:
    if text == "cifar10":
        return addition.CIFAR10
    if not text.isdecimal():
        if _is_file(text):
            return _lines(Path(text))
        if "," not in text:
            raise typer.BadParameter(
                f"--classes {text!r}: there is no such file, and an ensemble has two classes or more"
            )
        return tuple(text.split(","))
    if len(text) > len(str(MAX_CLASSES)) or int(text) > MAX_CLASSES:  # Python refuses to read thousands of digits
        raise typer.BadParameter(f"--classes must be at most {MAX_CLASSES}, got {text}")
    return tuple(map(str, range(int(text))))


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # a list of names is too long for the name of a file
        return False


def _lines(path: Path) -> tuple[str, ...]:
    try:
        names = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"--classes {path} cannot be read: {error}") from error
    if len(names) < 2:
        raise typer.BadParameter(f"--classes {path} must have the name of a class in each line, got {len(names)}")
    return names


def _normalisation(mean: str | None, std: str | None) -> Normalisation | None:
    if mean is None and std is None:
        return None
    if mean is None or std is None:
        raise typer.BadParameter("--mean and --std go together")
    return Normalisation(_numbers(mean), _numbers(std))


def _shape(text: str) -> tuple[int, int, int]:
    try:
        channels, height, width = (int(part) for part in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"--input-shape must be like 3,32,32, got {text!r}") from error
    return channels, height, width


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"--mean and --std must be lists of numbers like .5,.5,.5, got {text!r}") from error
