"""`smoothcert verify`: a certificate, or whatever holds several.

That is a certification as the service gives it, a list, or JSON lines: certificates, or a ledger of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from smoothcert.cli.codes import ERROR
from smoothcert.cli.options import AsJson
from smoothcert.cli.screen import out, plain
from smoothcert.errors import CertificateError, SmoothcertError

RUN = {"run", "once"}
FINISHED = {"image", "label", "seconds", "certificate"}
"""What lines of a ledger have: the first one, and the others."""


def verify(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="certificates, certifications, lists or lines of them; - for standard input"
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Recompute everything that follows from a certificate's counts; exit 1 if anything is wrong."""
    wrong = 0
    for file in files:
        count, problems = _checked(file)
        wrong += bool(problems)
        if as_json:
            said = {"file": str(file), "certificates": count, "consistent": not problems, "problems": problems}
            print(json.dumps(said))
            continue
        several = f" ({count:,} certificates)" if count > 1 else ""
        out.print("[bold red]wrong[/]" if problems else "[bold green]consistent[/]", end="  ")
        out.print(plain(f"{file}{several}"), soft_wrap=True)
        for problem in problems:
            out.print(plain(f"  {problem}"), soft_wrap=True)
    if wrong:
        raise typer.Exit(ERROR)


def _checked(file: Path) -> tuple[int, list[str]]:
    """How many certificates there are in a file, and what is wrong with them."""
    count, problems = 0, []
    try:
        text = _standard_input() if str(file) == "-" else file.read_bytes()
        for place, certificate in _certificates(text):
            count += 1
            problems += [f"{place}{problem}" for problem in _problems(certificate)]
    except OSError as error:
        problems.append(f"cannot be read: {error.strerror or error}")
    except SmoothcertError as error:
        problems.append(str(error))
    return count, problems


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise CertificateError("there is no standard input")
    return sys.stdin.buffer.read()


def _problems(text: str | bytes) -> list[str]:
    from smoothcert.certificate import Certificate
    from smoothcert.verification import verify

    try:
        return [str(problem) for problem in verify(Certificate.from_json(text)).problems]
    except SmoothcertError as error:
        return [str(error)]


def _certificates(text: bytes) -> Iterator[tuple[str, str | bytes]]:
    """The text of each certificate, and where it stands if it is one of several."""
    try:
        said = _read(text)
    except (ValueError, RecursionError) as error:
        if len(lines := text.splitlines()) < 2:
            raise CertificateError(f"not a certificate: {error}") from error
        yield from _lines(lines)
        return
    several = said["certificates"] if _is_certification(said) else said
    if not isinstance(several, list):
        yield "", text
        return
    if not several:
        raise CertificateError("there is no certificate in it")
    for i, each in enumerate(several):
        yield f"certificates[{i}]: ", json.dumps(each)


def _is_certification(said: object) -> bool:
    """Whether it holds certificates and claims nothing besides, as one altered to look like both would."""
    from smoothcert.certification import Certification

    return isinstance(said, dict) and "certificates" in said and said.keys() <= Certification.model_fields.keys()


def _lines(lines: list[bytes]) -> Iterator[tuple[str, str | bytes]]:
    found = 0
    for number, line in enumerate(lines, 1):
        try:
            said = _read(line) if line.strip() else {"run": None}
        except (ValueError, RecursionError) as error:
            raise CertificateError(f"line {number}: not a certificate: {error}") from error
        if isinstance(said, dict) and "certificate" in said and said.keys() <= FINISHED:
            line = json.dumps(said["certificate"]).encode()
        elif isinstance(said, dict) and "run" in said and said.keys() <= RUN:
            continue
        found += 1
        yield f"line {number}: ", line
    if not found:
        raise CertificateError("there is no certificate in it")


def _read(text: bytes) -> Any:
    """JSON without a key that comes twice, of which another reader may see the other one."""
    from smoothcert.certificate import without_repetition

    return json.loads(text, object_pairs_hook=without_repetition)
