from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli import dataset
from smoothcert.cli.bar import bar
from smoothcert.cli.ensembles import choose_ensemble
from smoothcert.cli.options import (
    ApiKey,
    AsJson,
    Convert,
    EnsembleName,
    Labels,
    NoiseText,
    Sigma,
    Url,
    connected,
    request_fields,
)
from smoothcert.cli.screen import out, plain
from smoothcert.errors import SmoothcertError

if TYPE_CHECKING:
    from smoothcert.certificate import Certificate
    from smoothcert.client import Client
    from smoothcert.noise import Noise
    from smoothcert.published import ServedEnsemble

SAMPLES = 200
"""The samples of an image under each noise: enough to see what is wrong, few enough to take seconds."""
FACTORS = (0.5, 2.0)
"""The strengths of the other noises that are tried, as multiples of the stated one."""


def diagnose(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER|NPZ",
            help="Subfolders of images named after their class, or a .npz file with the arrays images and labels.",
        ),
    ],
    labels: Labels = None,
    images: Annotated[int, typer.Option(min=1, help="The most images to use, evenly spread over the data set.")] = 100,
    ensemble: EnsembleName = None,
    noise: NoiseText = None,
    sigma: Sigma = None,
    convert: Convert = "none",
    url: Url = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Find out why an ensemble certifies little, from a few labelled images.

    Every image is certified from 200 samples under the noise of the ensemble, half of it and twice it.
    """
    from smoothcert.cli.findings import UnderNoise, diagnose_served
    from smoothcert.evaluation import Judged

    fields = request_fields(procedure=None, noise=noise, sigma=sigma, convert=convert)
    with connected(url, api_key) as client:
        served = choose_ensemble(client, ensemble)
        noises = _noises(served, fields.get("noise"), sigma)
        data = dataset.read(source, labels, served.classes).spread(images)
        with bar() as shown:
            task = shown.add_task("certifying", total=len(noises) * len(data.images))

            def judge(certificate: Certificate, label: int) -> Judged:
                shown.advance(task)
                return Judged(certificate, label)

            stated, *others = [
                UnderNoise(each, [*map(judge, _certified(client, served, data.images, each, convert), data.labels)])
                for each in noises
            ]
    diagnosis = diagnose_served(stated, others, classes=served.classes, samples=SAMPLES)
    if as_json:
        print(json.dumps({"ensemble": served.name, "images": len(data.images), **diagnosis.as_json()}))
        return
    out.print(plain(f"{served.name}, {len(data.images)} images of {source.resolve().name}"), soft_wrap=True)
    for line in str(diagnosis).splitlines():
        out.print(plain(line), soft_wrap=True)


def _noises(served: ServedEnsemble, named: Noise | None, sigma: float | None) -> list[Noise]:
    """The stated noise, then those that it can be scaled to."""
    from smoothcert.noise import resolve

    stated = resolve(named, sigma) or served.noise
    if stated is None:
        raise SmoothcertError(
            f"--noise is needed: the noise that {served.name} was trained for is unknown to the service"
        )
    scaled = [stated.scaled(factor) for factor in FACTORS]
    return [stated, *(each for each in scaled if each is not None)]


def _certified(
    client: Client, served: ServedEnsemble, images: Any, noise: Noise, convert: Any
) -> Iterator[Certificate]:
    from smoothcert.procedures import Fixed

    certificates = client.certify_many(
        iter(images),
        ensemble=served.name,
        noise=noise,
        allow_noise_mismatch=True,
        procedure=Fixed(n=SAMPLES),
        convert=convert,
    )
    with closing(certificates) as found:
        yield from found
