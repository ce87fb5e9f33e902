"""`smoothcert verify`: a certificate, or a file that holds several.

Such a file is a certification as the service returns it, a list, or JSON lines: certificates, or a ledger of them.
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
"""The keys of the first line of a ledger."""
FINISHED = {"image", "label", "seconds", "certificate"}
"""The keys that the other lines of a ledger may have."""


def verify(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Certificates, certifications, lists or lines of them; - for standard input."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Recompute everything that follows from a certificate's counts; the exit code is 1 if anything is wrong."""
    wrong = 0
    for file in files:
        count, problems = _checked(file)
        wrong += bool(problems)
        if as_json:
            record = {"file": str(file), "certificates": count, "consistent": not problems, "problems": problems}
            print(json.dumps(record))
            continue
        several = f" ({count:,} certificates)" if count > 1 else ""
        out.print("[bold red]wrong[/]" if problems else "[bold green]consistent[/]", end="  ")
        out.print(plain(f"{file}{several}"), soft_wrap=True)
        for problem in problems:
            out.print(plain(f"  {problem}"), soft_wrap=True)
    if wrong:
        raise typer.Exit(ERROR)


def _checked(file: Path) -> tuple[int, list[str]]:
    """The number of certificates in a file, and what is wrong with them."""
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
    """The text of each certificate, and its place if it is one of several."""
    try:
        payload = _read(text)
    except (ValueError, RecursionError) as error:
        if len(lines := text.splitlines()) < 2:
            raise CertificateError(f"not a certificate: {error}") from error
        yield from _lines(lines)
        return
    several = payload["certificates"] if _is_certification(payload) else payload
    if not isinstance(several, list):
        yield "", text
        return
    if not several:
        raise CertificateError("there is no certificate in it")
    for i, each in enumerate(several):
        yield f"certificates[{i}]: ", json.dumps(each)


def _is_certification(payload: object) -> bool:
    """Whether it holds certificates and has no other fields: an altered certificate could look like both."""
    from smoothcert.certification import Certification

    return (
        isinstance(payload, dict) and "certificates" in payload and payload.keys() <= Certification.model_fields.keys()
    )


def _lines(lines: list[bytes]) -> Iterator[tuple[str, str | bytes]]:
    found = 0
    for number, line in enumerate(lines, 1):
        try:
            record = _read(line) if line.strip() else {"run": None}
        except (ValueError, RecursionError) as error:
            raise CertificateError(f"line {number}: not a certificate: {error}") from error
        if isinstance(record, dict) and "certificate" in record and record.keys() <= FINISHED:
            line = json.dumps(record["certificate"]).encode()
        elif isinstance(record, dict) and "run" in record and record.keys() <= RUN:
            continue
        found += 1
        yield f"line {number}: ", line
    if not found:
        raise CertificateError("there is no certificate in it")


def _read(text: bytes) -> Any:
    """Parse JSON in which no key comes twice: another reader may see the other value."""
    from smoothcert.certificate import without_repetition

    return json.loads(text, object_pairs_hook=without_repetition)
