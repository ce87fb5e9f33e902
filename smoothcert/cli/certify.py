from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli.answers import exit_if_abstained, json_lines, print_certificates
from smoothcert.cli.bar import lines
from smoothcert.cli.files import require_writable, write
from smoothcert.cli.options import (
    QUESTION,
    SERVICE,
    Abandon,
    Alpha,
    ApiKey,
    AsJson,
    Attest,
    Beta,
    Consensus,
    Convert,
    EnsembleName,
    FixedSamples,
    MaxSamples,
    NoiseMismatch,
    NoiseText,
    ProcedureText,
    Radius,
    ResizeText,
    Sigma,
    Stages,
    Url,
    VotingName,
    connected,
    request_fields,
)


def certify(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE", help="PNG, JPEG or WebP files.")],
    radius: Radius = None,
    ensemble: EnsembleName = None,
    noise: NoiseText = None,
    sigma: Sigma = None,
    allow_noise_mismatch: NoiseMismatch = False,
    alpha: Alpha = 0.001,
    beta: Beta = 0.001,
    procedure: ProcedureText = None,
    max_samples: MaxSamples = None,
    n: FixedSamples = None,
    stages: Stages = None,
    abandon: Abandon = None,
    voting: VotingName = None,
    consensus: Consensus = None,
    family_wise: Annotated[
        bool, typer.Option("--family-wise", help="Share alpha among the images.", rich_help_panel=QUESTION)
    ] = False,
    convert: Convert = "none",
    resize: ResizeText = None,
    url: Url = None,
    api_key: ApiKey = None,
    wait_timeout: Annotated[
        float | None,
        typer.Option(min=0, help="Cancel the certification after this many seconds.", rich_help_panel=SERVICE),
    ] = None,
    leave: Annotated[
        bool,
        typer.Option(
            "--leave",
            help="At the timeout and on Ctrl-C, let the certification go on instead.",
            rich_help_panel=SERVICE,
        ),
    ] = False,
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="Also write the certificates into this file.")] = None,
    attest: Attest = None,
) -> None:
    """Certify images: is the answer on each of them provably stable within the radius?

    Prints a table, or with --json a line for each certificate. The exit code is 3 if there are abstentions.
    """
    for file in filter(None, (out, attest)):
        require_writable(file)
    fields = request_fields(
        radius=radius,
        ensemble=ensemble,
        noise=noise,
        sigma=sigma,
        allow_noise_mismatch=allow_noise_mismatch,
        alpha=alpha,
        beta=beta,
        procedure=procedure,
        max_samples=max_samples,
        n=n,
        stages=stages,
        abandon=abandon,
        voting=voting,
        consensus=consensus,
        family_wise=family_wise,
        convert=convert,
        resize=resize,
    )
    with connected(url, api_key) as client:
        found = client.certify(
            [*images],
            wait_timeout=wait_timeout,
            on_timeout="leave" if leave else "cancel",
            attest=attest is not None,
            progress=lines(),
            **fields,
        )
    try:
        if out:
            write(out, json_lines(found))
        if attest:
            write(attest, "".join(f"{each.attestation}\n" for each in found))
    finally:  # a file that cannot be written must not suppress the table, nor the reverse
        print_certificates(found, images, as_json=as_json)
    exit_if_abstained(found)
