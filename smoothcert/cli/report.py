from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import dataset
from smoothcert.cli.codes import ERROR
from smoothcert.cli.files import require_writable
from smoothcert.cli.options import ApiKey, AsJson, Key, Labels, Url
from smoothcert.cli.screen import note
from smoothcert.cli.sources import collected, labelled
from smoothcert.cli.verify import read_keys
from smoothcert.errors import CertificateError
from smoothcert.extras import installing, is_installed

if TYPE_CHECKING:
    from smoothcert.collection import Collection


def report(
    source: Annotated[
        str,
        typer.Argument(
            metavar="LEDGER|FOLDER|ID",
            help="A file of certificates, a folder that smoothcert evaluate has written, a folder of files of "
            "certificates, or the id of a certification.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The page to write; its Markdown is written beside it.")] = Path(
        "report.html"
    ),
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER|NPZ",
            help="The images that were certified, in the same order, as evaluate takes them: the page shows them.",
        ),
    ] = None,
    labels: Labels = None,
    card: Annotated[
        Path | None,
        typer.Option(
            metavar="TOML", help="The ensemble.toml of the ensemble: how it was trained, and the names of its classes."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title; the name of the file or folder if left out.")] = None,
    key: Key = None,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Write a report of certificates as one self-contained page, and as Markdown.

    It says what was asked, what was proved and how surely, for the images and the population that they come from, and
    verifies every certificate. The exit code is 1 if anything is wrong with one.
    """
    from smoothcert.account import Evidence
    from smoothcert.card import Card
    from smoothcert.report import Report

    page, markdown = out.with_suffix(".html"), out.with_suffix(".md")
    for file in (page, markdown):
        require_writable(file)
    found = collected(source, None if key is None else read_keys(key), url, api_key)
    stated = None if card is None else Card.read(card, found.ensemble)
    pictures: list[bytes | None] = []
    if images is not None:
        found, pictures = _with_images(found, images, labels, stated.classes if stated else ())
    evidence = Evidence(
        examinations=[*found.examinations.items()],
        card=stated,
        pictures=pictures,
        problems=["; ".join(each.problems) for each in found.found],
    )
    made = Report(title or found.name, found.names, found.judged, evidence)
    made.write(page)
    made.write(markdown)
    if not is_installed("matplotlib"):
        note(f"the report has no pictures: they need matplotlib: {installing('plot')}")
    if as_json:
        print(json.dumps(made.as_json()))
    else:
        from smoothcert.cli.evaluate import print_report

        print_report(made)
    note(f"report: {page}")
    if made.warning:
        note(made.warning)
        raise typer.Exit(ERROR)


def _with_images(
    found: Collection, source: Path, labels: Path | None, classes: Sequence[str]
) -> tuple[Collection, list[bytes | None]]:
    """The collection with the names, labels and pictures of its images."""
    from smoothcert.client.images import encode
    from smoothcert.client.picture import picture

    named = [source / name for name in found.names]
    if labels is None and all(path.is_file() for path in named):  # the files that `smoothcert evaluate` wrote down
        return found, [picture(encode(path).sent) for path in named]
    data = dataset.read(source, labels, classes or _named_classes(found))
    if len(data.names) != len(found.found):
        raise CertificateError(
            f"--images {source} has {len(data.names):,} images, and there are {len(found.found):,} certificates"
        )
    pictures = []
    for name, image, each in zip(data.names, data.images, found.found, strict=True):
        encoded, stated = encode(image), each.entry.beside.get("image")
        if isinstance(stated, str) and stated != encoded.sha256():
            place = each.entry.place.removesuffix(": ")
            raise CertificateError(f"--images {source}: {name} is not the image that {place} has a certificate of")
        pictures.append(picture(encoded.sent))
    return labelled(found, data.names, data.labels), pictures


def _named_classes(found: Collection) -> list[str]:
    """The classes that the certificates name; the others have their numbers."""
    from smoothcert.counts import MOST_CLASSES

    certificates = [each.certificate for each in found.found]
    known = {each.class_index: each.class_name for each in certificates if each.class_name}
    seen = [number for each in certificates for number in (*each.counts, each.class_index or 0)]
    seen = [number for number in seen if number < MOST_CLASSES]  # a label is a class, and not a superclass
    return [known.get(number) or str(number) for number in range(1 + max(seen))]
