"""`smoothcert replay`.

A replay runs the networks of a zoo, which belong to the tree of the service and not to the package. So the tree's own
command is looked for by its name, and a package without the tree says what is missing.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.errors import SmoothcertError
from smoothcert.extras import needed_by

COMMAND = "workers.replay"
"""The module of the service's tree that replays certificates."""


def replay(
    certificate: Annotated[
        Path,
        typer.Argument(help="A certificate, as JSON, or its attestation; of several in a file, that of the image."),
    ],
    image: Annotated[Path, typer.Argument(help="The image: PNG, JPEG, WebP or npy.")],
    zoo: Annotated[
        str, typer.Option(help="The folder of ensembles; the shipped one if left out.", envvar="SMOOTHCERT_ZOO")
    ] = "",
    allow_import: Annotated[
        list[str] | None, typer.Option(help="module:callable of a network that the ensemble may name")
    ] = None,
    attest: Annotated[
        Path | None, typer.Option(help="Sign the outcome and write it into this file; --keyring names the key.")
    ] = None,
    keyring: Annotated[
        Path | None, typer.Option(help="The file with your own key, which `python -m app keygen FILE` makes.")
    ] = None,
) -> None:
    """Draw the samples of a certificate again from its seed, and compare every count; exit code 1 if one differs.

    This needs the image and the ensemble, and no service: run it in a clone that has the ensemble in its zoo.
    """
    with needed_by("replay"):
        import_module("torch")
    try:
        command = import_module(COMMAND).command
    except ModuleNotFoundError as error:
        raise SmoothcertError(
            f"replay runs the ensemble itself and needs {error.name}, which is not part of the package: "
            "run it in a clone of smoothcert, where `make serve` installs what ensembles need"
        ) from error
    command(str(certificate), str(image), zoo, frozenset(allow_import or ()), attest=attest, keyring=keyring)
