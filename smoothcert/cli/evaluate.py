from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli import dataset
from smoothcert.cli.bar import bar
from smoothcert.cli.ensembles import choose_ensemble
from smoothcert.cli.files import write
from smoothcert.cli.options import (
    Abandon,
    Alpha,
    ApiKey,
    AsJson,
    Beta,
    Consensus,
    Convert,
    EnsembleName,
    FixedSamples,
    Labels,
    MaxSamples,
    NoiseMismatch,
    NoiseText,
    ProcedureText,
    Radii,
    Radius,
    ResizeText,
    Sigma,
    Stages,
    Url,
    VotingName,
    connected,
    reading_radii,
    request_fields,
)
from smoothcert.cli.screen import note, table
from smoothcert.cli.screen import out as screen
from smoothcert.errors import SmoothcertError

if TYPE_CHECKING:
    from smoothcert.certificate import Certificate
    from smoothcert.client import Client
    from smoothcert.published import ServedEnsemble
    from smoothcert.report import Report

CERTIFICATES, IMAGES = "certificates.jsonl", "images.csv"
"""The files of a report from which another command goes on."""


def evaluate(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER|NPZ",
            help="Subfolders of images named after their class, or a .npz file with the arrays images and labels.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder for the report.")],
    labels: Labels = None,
    radius: Radius = None,
    radii: Radii = None,
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
    convert: Convert = "none",
    resize: ResizeText = None,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Certify a whole data set and report ACR, certified accuracy and plots.

    The report is report.html, report.md, curve.csv, images.csv, report.png, and certificates.jsonl, from which a
    second run resumes.

    Labels are names of the ensemble's classes, or their numbers.
    """
    fields = request_fields(
        radius=radius,
        radii=radii,
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
        convert=convert,
        resize=resize,
    )
    from smoothcert.evaluation import Judged
    from smoothcert.report import Report

    with reading_radii(radii), connected(url, api_key) as client:
        served = choose_ensemble(client, ensemble)
        data = dataset.read(source, labels, served.classes, apart_from=out)
        with closing(certified(client, served, data.images, fields, out / CERTIFICATES)) as found:
            judged = [Judged(certificate, label) for certificate, label in zip(found, data.labels, strict=True)]
    report = Report(f"{source.resolve().name} by {served.name}", data.names, judged)
    _write(report, out)
    if as_json:
        print(json.dumps(report.as_json()))
    else:
        print_report(report)


def certified(
    client: Client, served: ServedEnsemble, images: Any, fields: dict[str, Any], ledger: Path
) -> Generator[Certificate, None, None]:
    """A certificate for each image, with a bar that shows the time left."""
    from smoothcert.client.errors import ClientError

    before, total = _finished_before(ledger), len(images)
    with bar() as shown:
        task = shown.add_task(
            "certifying", total=total, completed=before
        )  # `completed` at the start does not count for the speed
        try:
            with closing(client.certify_many(iter(images), out=ledger, **fields)) as certificates:
                for done, certificate in enumerate(certificates, 1):
                    _require_same(certificate, served, ledger)
                    if done == before:
                        note(f"{before:,} of {total:,} images were finished before")
                    shown.update(task, completed=max(done, before))
                    yield certificate
        except (KeyboardInterrupt, ClientError) as error:
            if isinstance(error, KeyboardInterrupt) or error.passing:
                error.add_note(f"the finished certificates are in {ledger}, and the same command goes on from there")
            raise


def _finished_before(ledger: Path) -> int:
    """The finished lines of an earlier run; `certify_many` finds out whether it is the same run."""
    try:
        with ledger.open("rb") as file:
            return max(0, sum(line.endswith(b"\n") for line in file) - 1)
    except OSError:
        return 0


def _require_same(certificate: Certificate, served: ServedEnsemble, ledger: Path) -> None:
    if certificate.provenance and certificate.provenance.ensemble.digest != served.digest:
        raise SmoothcertError(
            f"{ledger} has certificates of another ensemble than {served.name} as it is served now; name another --out"
        )


def _write(report: Report, folder: Path) -> None:
    from smoothcert.plot import plot_report, pyplot

    report.write(folder / "report.md")
    write(folder / "curve.csv", report.curve_csv())
    write(folder / IMAGES, report.images_csv())
    page = folder / "report.html"
    try:
        pyplot()
    except SmoothcertError as missing:
        note(f"the report has no picture: {missing}")
        page = folder / "report.md"
    else:
        report.write(page)
        plot_report(report, folder / "report.png")
    note(f"report: {page}")


def print_report(report: Report) -> None:
    """Print the figures and the curve."""
    from smoothcert.figures import radius_text
    from smoothcert.tables import show

    figures, curve = table("figure", numbers=("",)), table(numbers=("radius", report.accuracy_name))
    for name, value in report.rows:
        figures.add_row(name, show(value))
    for radius, accuracy in report.curve:
        curve.add_row(radius_text(radius), show(accuracy))
    screen.print(figures)
    screen.print(curve)
