"""`smoothcert certify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli.answers import answer, end, json_lines
from smoothcert.cli.files import require_writable, write
from smoothcert.cli.options import (
    QUESTION,
    SERVICE,
    Alpha,
    AnySigma,
    ApiKey,
    AsJson,
    Beta,
    Consensus,
    Convert,
    EnsembleName,
    ProcedureText,
    Radius,
    Sigma,
    Url,
    VotingName,
    asked,
    connected,
)


def certify(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE", help="PNG, JPEG or WebP files")],
    radius: Radius = None,
    ensemble: EnsembleName = None,
    sigma: Sigma = None,
    allow_noise_mismatch: AnySigma = False,
    alpha: Alpha = 0.001,
    beta: Beta = 0.001,
    procedure: ProcedureText = "adaptive",
    voting: VotingName = None,
    consensus: Consensus = None,
    family_wise: Annotated[
        bool, typer.Option("--family-wise", help="share alpha among the images", rich_help_panel=QUESTION)
    ] = False,
    convert: Convert = "none",
    url: Url = None,
    api_key: ApiKey = None,
    wait_timeout: Annotated[
        float | None, typer.Option(min=0, help="seconds, after which it is canceled", rich_help_panel=SERVICE)
    ] = None,
    leave: Annotated[
        bool,
        typer.Option("--leave", help="at the timeout and on Ctrl-C, let it go on instead", rich_help_panel=SERVICE),
    ] = False,
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="write the certificates into this file, too")] = None,
) -> None:
    """Certify images: is the answer on each of them provably stable within the radius?

    Prints a table, or with --json a line for each certificate. Exit code 3 where some were abstained from.
    """
    if out:
        require_writable(out)
    question = asked(
        radius=radius,
        ensemble=ensemble,
        sigma=sigma,
        allow_noise_mismatch=allow_noise_mismatch,
        alpha=alpha,
        beta=beta,
        procedure=procedure,
        voting=voting,
        consensus=consensus,
        family_wise=family_wise,
        convert=convert,
    )
    with connected(url, api_key) as client:
        found = client.certify(
            [*images], wait_timeout=wait_timeout, on_timeout="leave" if leave else "cancel", **question
        )
    try:
        if out:
            write(out, json_lines(found))
    finally:  # neither keeps the other from the certificates
        answer(found, images, as_json=as_json)
    end(found)
