"""The options that several commands share: the address of the service, and the question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli import completion
from smoothcert.cli.codes import OptionError

if TYPE_CHECKING:
    from smoothcert.client import Client
    from smoothcert.noise import Noise

SERVICE, QUESTION = "The service", "The question"

Url = Annotated[
    str | None,
    typer.Option(
        envvar="SMOOTHCERT_URL",
        help="The address of the service; http://127.0.0.1:8000 if left out.",
        rich_help_panel=SERVICE,
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="SMOOTHCERT_API_KEY",
        help="The API key; other users of this machine can see it on the command line.",
        rich_help_panel=SERVICE,
    ),
]


def decimal(text: str | float) -> float:
    """A number, with a decimal point or a decimal comma."""
    try:
        return float(text if isinstance(text, float) else text.replace(",", "."))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number") from None


def number(description: str, **more: Any) -> Any:
    """An option that takes a number, with a decimal point or a decimal comma."""
    return typer.Option(parser=decimal, metavar="<float>", help=description, **more)


Radius = Annotated[
    float | None,
    number(
        "The radius to prove, in the norm of the noise, for pixels in [0, 1]; fixed takes none.",
        rich_help_panel=QUESTION,
    ),
]
EnsembleName = Annotated[
    str | None,
    typer.Option(
        help="The name of the ensemble. May be left out if only one is served, or for the default one.",
        autocompletion=completion.ensembles,
        rich_help_panel=QUESTION,
    ),
]
NoiseText = Annotated[
    str | None,
    typer.Option(
        metavar="NOISE",
        help="The noise, such as gaussian:sigma=0.25, or as a JSON object; the ensemble's own if left out.",
        rich_help_panel=QUESTION,
    ),
]
Sigma = Annotated[float | None, number("Short for --noise gaussian:sigma=SIGMA.", rich_help_panel=QUESTION)]
NoiseMismatch = Annotated[
    bool,
    typer.Option(
        "--allow-noise-mismatch",
        "--allow-sigma-mismatch",
        help="Allow a noise that the ensemble was not trained for.",
        rich_help_panel=QUESTION,
    ),
]
Alpha = Annotated[float, number("The chance of a false certificate.", rich_help_panel=QUESTION)]
Beta = Annotated[float, number("The chance of giving up on a radius that could be proved.", rich_help_panel=QUESTION)]
ProcedureText = Annotated[
    str | None,
    typer.Option(
        help="The name of a procedure, such as sequential, adaptive or fixed, or a JSON object with its parameters. If "
        "left out, it is optimal with a radius and fixed without one; exact for splitting noise.",
        autocompletion=completion.procedures,
        rich_help_panel=QUESTION,
    ),
]
MaxSamples = Annotated[
    int | None,
    typer.Option(help="The most samples of an image, for optimal, sequential and largest.", rich_help_panel=QUESTION),
]
FixedSamples = Annotated[
    int | None, typer.Option("--n", help="The samples of an image, for fixed.", rich_help_panel=QUESTION)
]
Stages = Annotated[
    str | None,
    typer.Option(
        help="The samples of each stage, for adaptive, such as 100,1000,10000,120000.", rich_help_panel=QUESTION
    ),
]
Radii = Annotated[
    str | None,
    typer.Option(
        help="Radii of a curve, such as 0.25,0.5,0.75, all from one run of optimal; leave out --radius.",
        rich_help_panel=QUESTION,
    ),
]
Abandon = Annotated[
    str | None,
    typer.Option(help="When to give up, for sequential: strict or lost-certificate.", rich_help_panel=QUESTION),
]
VotingName = Annotated[
    str | None,
    typer.Option(
        help="soft, softmax, hard or weighted; the ensemble's own if left out.",
        autocompletion=completion.votings,
        rich_help_panel=QUESTION,
    ),
]
Consensus = Annotated[
    int | None,
    typer.Option(help="K: evaluate the other members only where the first K disagree.", rich_help_panel=QUESTION),
]
Convert = Annotated[
    str,
    typer.Option(
        help="rgb or grey: convert images that the ensemble does not accept as they are.", rich_help_panel=QUESTION
    ),
]
ResizeText = Annotated[
    str | None,
    typer.Option(
        metavar="RESIZE",
        help="cover, stretch or center, or a JSON object: resize images of another size. The certificate says so.",
        rich_help_panel=QUESTION,
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(help="For a FOLDER, a CSV file with lines of file,label; for an NPZ, a .npy file."),
]
Attest = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Also write the certificates into this file as the service has signed them, for verify --key.",
    ),
]
Key = Annotated[
    Path | None,
    typer.Option(
        metavar="PUBLIC",
        help="The public keys of the service, from its /.well-known/smoothcert-keys.json; everything must be signed by "
        "one of them.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; of several answers, one in each line.")]


def connected(url: str | None, api_key: str | None, **more: Any) -> Client:
    """A client of the service."""
    from smoothcert.client import Client
    from smoothcert.client.address import Address

    with reading_options():
        Address.of(url, api_key)
    return Client(url, api_key, **more)


def request_fields(
    *,
    procedure: str | None,
    noise: str | None,
    n: int | None = None,
    stages: str | None = None,
    max_samples: int | None = None,
    abandon: str | None = None,
    radii: str | None = None,
    resize: str | None = None,
    **others: Any,
) -> dict[str, Any]:
    """The keywords of the client; options that are left out are left to it. OptionError for a value that is wrong."""
    from smoothcert.client.fields import make_request
    from smoothcert.request import CertificationRequest

    fields = {name: value for name, value in others.items() if value is not None}
    if resize is not None:
        fields["resize"] = _name_or_object("resize", resize)
    if (named := named_noise(noise)) is not None:
        fields["noise"] = named
    if radii is not None and "radius" in fields:
        raise OptionError("--radii and --radius exclude each other: name the radius among the --radii")
    parameters: dict[str, Any] = {
        "n": n,
        "stages": stages and whole_numbers(stages),
        "max_samples": max_samples,
        "abandon": abandon,
        "radii": None if radii is None else numbers(radii),
    }
    given = {name: value for name, value in parameters.items() if value is not None}
    if procedure is not None or given:
        target: float | None = max(given["radii"]) if "radii" in given else fields.get("radius")
        fields["procedure"] = _procedure(procedure, given, radius=target, noise=named)
    with reading_options(), reading_radii(radii):
        make_request(fields, CertificationRequest)  # type: ignore[arg-type]
    return fields


@contextmanager
def reading_options() -> Iterator[None]:
    """Raise OptionError for whatever is wrong with the values of options, so that all of them end the command alike."""
    from pydantic import ValidationError

    from smoothcert.client.errors import InvalidRequestError
    from smoothcert.errors import DomainError, explain

    try:
        yield
    except (DomainError, InvalidRequestError, ValidationError) as error:
        wrong = OptionError(explain(error) if isinstance(error, ValidationError) else str(error))
        for remark in getattr(error, "__notes__", ()):
            wrong.add_note(remark)
        raise wrong from error


def named_noise(text: str | None) -> Noise | None:
    """The noise that --noise names."""
    from smoothcert.noise import parse_noise

    with reading_options():
        return None if text is None else parse_noise(text)


def whole_numbers(text: str) -> tuple[int, ...]:
    """The numbers of --stages."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f"--stages takes whole numbers with commas between, got {text!r}") from None


def numbers(text: str) -> tuple[float, ...]:
    """The numbers of --radii."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f"--radii takes numbers with commas between, got {text!r}") from None


@contextmanager
def reading_radii(text: str | None) -> Iterator[None]:
    """Say how --radii was read if the radii are refused: a decimal comma makes two numbers of one."""
    from smoothcert.client.errors import InvalidRequestError

    try:
        yield
    except InvalidRequestError as error:
        if text is not None and "," in text and "." not in text and "radii" in error.detail:
            radii = " and ".join(f"{radius:g}" for radius in numbers(text))
            error.add_note(f"--radii {text} names the radii {radii}: radii are separated by commas, decimals by points")
        raise


def _procedure(text: str | None, given: dict[str, Any], *, radius: float | None, noise: Noise | None) -> Any:
    """The procedure that --procedure names, with the parameters that were given as options of their own."""
    from smoothcert.procedures import preferred

    named = preferred(radius, noise).name if text is None else text
    chosen = _parsed("procedure", named) if named.lstrip().startswith("{") else {"name": named}
    _require_offered(chosen)
    for name in given:
        _require_parameter(name, chosen, named=text is not None)
    return {**chosen, **given} if given else chosen if len(chosen) > 1 else named


def _name_or_object(option: str, text: str) -> Any:
    return _parsed(option, text) if text.lstrip().startswith("{") else text


def _parsed(option: str, text: str) -> dict[str, Any]:
    from smoothcert.certificate import without_repetition

    try:
        found: dict[str, Any] = json.loads(text, object_pairs_hook=without_repetition)
    except ValueError as error:
        raise OptionError(f"--{option} {text!r} is not valid JSON: {error}") from None
    return found


def _require_offered(chosen: dict[str, Any]) -> None:
    """Raise OptionError for a name that no procedure of certifications has."""
    from smoothcert.errors import suggestion
    from smoothcert.procedures import PROCEDURES

    name = chosen.get("name")
    if isinstance(name, str) and (name not in PROCEDURES.names or PROCEDURES[name].local):
        near = suggestion(name, PROCEDURES.offered)
        raise OptionError(f"--procedure must be one of {', '.join(PROCEDURES.offered)}, got {name!r}{near}")


def _require_parameter(name: str, chosen: dict[str, Any], *, named: bool) -> None:
    """Raise OptionError where an option does not belong to the procedure, or where its JSON says the same."""
    from smoothcert.procedures import PROCEDURES

    option, kind = f"--{name.replace('_', '-')}", chosen.get("name")
    if name in chosen:
        raise OptionError(f"{option} is given twice: as an option and in --procedure")
    if kind in PROCEDURES.names and name not in PROCEDURES[kind].model_fields:
        by_default = "" if named else ", the default here"
        have = [each for each in PROCEDURES.offered if name in PROCEDURES[each].model_fields]
        raise OptionError(f"{option} is an option of --procedure {', '.join(have)}, got {kind}{by_default}")
