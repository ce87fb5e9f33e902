"""`smoothcert verify`: a certificate or an attestation, or a file that holds several.

Such a file is a certification as the service returns it, a list, or JSON lines: certificates, or a ledger of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli.codes import ERROR
from smoothcert.cli.options import AsJson, Key
from smoothcert.cli.screen import out, plain
from smoothcert.errors import AttestationError, CertificateError

if TYPE_CHECKING:
    from smoothcert.attestation.keys import KeySet
    from smoothcert.examination import Examination
    from smoothcert.wrapper import Others

ASPECTS = ("signed", "unaltered", "follows")


def verify(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Certificates, attestations, certifications, lists or lines of them; - for standard input.",
        ),
    ],
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Recompute everything that follows from a certificate's counts; the exit code is 1 if anything is wrong.

    With --key, say three things separately: who signed, whether the file is unaltered, and whether what it claims
    follows from its counts.
    """
    from smoothcert.wrapper import Others

    keys = None if key is None else read_keys(key)
    others, wrong = Others(apart=True), 0
    for file in files:
        found = _examined(file, keys, others)
        wrong += isinstance(found, str) or bool(found.problems)
        if as_json:
            print(json.dumps({"file": str(file), **_record(found)}))
        else:
            _print(file, found, separately=keys is not None)
    if wrong:
        raise typer.Exit(ERROR)


def read_keys(path: Path) -> KeySet:
    """The public keys in a file; an error names --key."""
    import smoothcert.attestation.signing  # noqa: F401  # a missing extra is said before anything is verified
    from smoothcert.attestation.keys import KeySet

    try:
        return KeySet.from_json(path.read_bytes())
    except OSError as error:
        raise AttestationError(f"--key {path} cannot be read: {error.strerror or error}") from error
    except AttestationError as error:
        raise AttestationError(f"--key {path}: {error}") from error


def _examined(file: Path, keys: KeySet | None, others: Others) -> Examination | str:
    """What was found out about a file, or why it cannot be read."""
    from smoothcert.examination import examine

    try:
        text = _standard_input() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except CertificateError as error:
        return str(error)
    return examine(text, keys, others=others, name=str(file))


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise CertificateError("there is no standard input")
    return sys.stdin.buffer.read()


def _record(found: Examination | str) -> dict[str, object]:
    if isinstance(found, str):
        return {"certificates": 0, "consistent": False, "problems": [found]}
    conclusions = {name: getattr(found, name) for name in ASPECTS}
    return {
        "certificates": found.certificates,
        "consistent": bool(found),
        "problems": found.problems,
        "notes": found.notes,
        **{name: {"holds": each.holds, "sentence": each.sentence} for name, each in conclusions.items()},
    }


def _print(file: Path, found: Examination | str, *, separately: bool) -> None:
    good = not isinstance(found, str) and bool(found)
    count = 0 if isinstance(found, str) else found.certificates
    several = f" ({count:,} certificates)" if count > 1 else ""
    out.print("[bold green]consistent[/]" if good else "[bold red]wrong[/]", end="  ")
    out.print(plain(f"{file}{several}"), soft_wrap=True)
    if isinstance(found, str):
        lines = [found]
    else:
        lines = [_aspect(name, found) for name in ASPECTS] if separately else []
        lines += [*found.problems, *(f"note: {note}" for note in found.notes)]
    for line in lines:
        out.print(plain(f"  {line}"), soft_wrap=True)


def _aspect(name: str, found: Examination) -> str:
    conclusion = getattr(found, name)
    answer = {True: "yes", False: "no", None: "unknown"}[conclusion.holds]
    return f"{name + ':':<11}{answer}. {conclusion.sentence}"
