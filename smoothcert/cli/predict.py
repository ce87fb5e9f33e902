from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli.codes import ABSTAINED
from smoothcert.cli.options import (
    QUESTION,
    SERVICE,
    ApiKey,
    AsJson,
    Consensus,
    Convert,
    EnsembleName,
    NoiseMismatch,
    NoiseText,
    ResizeText,
    Sigma,
    Url,
    VotingName,
    connected,
    number,
    request_fields,
)
from smoothcert.cli.screen import fitting, out, plain, table


def predict(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE", help="PNG, JPEG or WebP files.")],
    ensemble: EnsembleName = None,
    noise: NoiseText = None,
    sigma: Sigma = None,
    allow_noise_mismatch: NoiseMismatch = False,
    alpha: Annotated[float, number("The chance of a wrong class.", rich_help_panel=QUESTION)] = 0.001,
    n: Annotated[int, typer.Option(min=1, help="The number of samples.", rich_help_panel=QUESTION)] = 1000,
    voting: VotingName = None,
    consensus: Consensus = None,
    convert: Convert = "none",
    resize: ResizeText = None,
    url: Url = None,
    api_key: ApiKey = None,
    wait_timeout: Annotated[
        float | None,
        typer.Option(min=0, help="Give up after this many seconds.", rich_help_panel=SERVICE),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the class of the smoothed classifier at each image, without a radius.

    Prints a table, or with --json a line for each image. The exit code is 3 if there are abstentions.
    """
    fields = request_fields(
        procedure=None,
        noise=noise,
        resize=resize,
        ensemble=ensemble,
        sigma=sigma,
        allow_noise_mismatch=allow_noise_mismatch,
        alpha=alpha,
        voting=voting,
        consensus=consensus,
        convert=convert,
    )
    with connected(url, api_key) as client:
        found = client.predict([*images], n=n, wait_timeout=wait_timeout, **fields)
    if as_json:
        print("".join(f"{each.model_dump_json()}\n" for each in found), end="")
    else:
        shown = table("image", "class", numbers=("samples of it", "samples"), tight=True)
        for name, each in zip(images, found, strict=True):
            known = each.class_index is not None
            shown.add_row(
                plain(name),
                plain(each.class_name or each.class_index) if known else "[yellow]undecided[/]",
                f"{each.counts[each.class_index]:,}" if each.class_index is not None else "–",
                f"{each.samples:,}",
            )
        out.print(fitting(shown))
    if any(each.class_index is None for each in found):
        raise typer.Exit(ABSTAINED)
