from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli.codes import WORSE, OptionError
from smoothcert.cli.files import require_writable, write
from smoothcert.cli.options import (
    Alpha,
    ApiKey,
    AsJson,
    Consensus,
    Convert,
    FixedSamples,
    Key,
    Labels,
    NoiseMismatch,
    NoiseText,
    ProcedureText,
    ResizeText,
    Sigma,
    Url,
    VotingName,
    number,
    request_fields,
)
from smoothcert.cli.screen import fitting, note, plain, table
from smoothcert.cli.screen import out as screen
from smoothcert.cli.served import certify_both
from smoothcert.cli.sources import collected
from smoothcert.cli.verify import read_keys

if TYPE_CHECKING:
    from smoothcert.comparison import Comparison

SOURCE = (
    "A file of certificates, the folder of smoothcert evaluate or one of such files, or the id of a certification; "
    "with --images, the name of an ensemble."
)


def compare(
    old: Annotated[str, typer.Argument(metavar="OLD", help=SOURCE)],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The same images, certified by another ensemble.")],
    margin: Annotated[
        float, number("The points of certified accuracy that may be lost; the exit code is 3 beyond them.")
    ] = 0.0,
    radius: Annotated[
        list[float] | None, number("A radius to compare at, or several; those of the report if left out.")
    ] = None,
    confidence: Annotated[float, number("The confidence with which all intervals hold together.")] = 0.95,
    report: Annotated[
        Path | None, typer.Option(metavar="HTML", help="Also write a page, and its Markdown beside it.")
    ] = None,
    key: Key = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER|NPZ",
            help="Certify these labelled images by the ensembles OLD and NEW of a service first, as evaluate does.",
        ),
    ] = None,
    labels: Labels = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="With --images, the folder for the certificates of both.")
    ] = None,
    noise: NoiseText = None,
    sigma: Sigma = None,
    allow_noise_mismatch: NoiseMismatch = False,
    alpha: Alpha = 0.001,
    procedure: ProcedureText = None,
    n: FixedSamples = None,
    voting: VotingName = None,
    consensus: Consensus = None,
    convert: Convert = "none",
    resize: ResizeText = None,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Compare two sets of certificates of the same images: is the new ensemble worse?

    With --images, OLD and NEW are ensembles of a service, which certify the images first; the options of the question
    are for that. A procedure with a target radius takes exactly one --radius.

    The exit code is 3 if, with this confidence, certified accuracy is lower by more than the margin at some radius. A
    release pipeline can stop there.
    """
    from smoothcert.comparison import compare as compared

    if not margin >= 0 or margin > 100:
        raise OptionError(f"--margin must be points from 0 to 100, got {margin!r}")
    level = round(1 - confidence, 12)
    if not 0 < level < 1:
        raise OptionError(f"--confidence must be between 0 and 1, such as 0.95, got {confidence!r}")
    for each in radius or ():
        if not 0 <= each < math.inf:
            raise OptionError(f"--radius must be a number from 0 on, got {each!r}")
    pages = [] if report is None else [report.with_suffix(".html"), report.with_suffix(".md")]
    for page in pages:
        require_writable(page)
    keys = None if key is None else read_keys(key)
    if images is not None:
        if out is None or keys is not None:
            raise OptionError("--images certifies anew: name a folder for it by --out, and leave out --key")
        fields = request_fields(
            noise=noise,
            sigma=sigma,
            allow_noise_mismatch=allow_noise_mismatch,
            alpha=alpha,
            procedure=procedure,
            n=n,
            voting=voting,
            consensus=consensus,
            convert=convert,
            resize=resize,
        )
        folders = certify_both(
            old, new, images, labels, _with_target(fields, radius or []), out, url=url, api_key=api_key
        )
        old, new = map(str, folders)
    elif out is not None or labels is not None:
        raise OptionError("--out and --labels go with --images")
    before, after = (collected(source, keys, url, api_key) for source in (old, new))
    found = compared(before, after, radii=radius or (), level=level)
    for page, text in zip(pages, (found.html(margin), found.markdown(margin)) if pages else (), strict=True):
        write(page, text)
    if as_json:
        print(json.dumps(found.as_json(margin)))
    else:
        _print(found)
    note(found.verdict(margin))
    if found.worse(margin):
        raise typer.Exit(WORSE)


def _with_target(fields: dict[str, Any], radii: Sequence[float]) -> dict[str, Any]:
    """The question with the radius to prove, if its procedure proves a given one."""
    from smoothcert.client.fields import make_request
    from smoothcert.request import CertificationRequest

    question: Any = {**fields, "procedure": fields.get("procedure", "fixed")}
    if not make_request(question, CertificationRequest).procedure.targeted:
        return dict(question)
    if len(radii) != 1:
        raise OptionError(f"this procedure proves a given radius: name one by --radius, got {len(radii)}")
    return {**question, "radius": radii[0]}


def _print(found: Comparison) -> None:
    from smoothcert.comparison import COLUMNS
    from smoothcert.tables import show

    shown = table(numbers=COLUMNS, tight=True)
    for row in found.rows:
        shown.add_row(*(plain(show(value)) for value in row))
    screen.print(fitting(shown))
