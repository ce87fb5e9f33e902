"""The options that several commands share: where the service is, and what is asked of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from smoothcert.client import Client

SERVICE, QUESTION = "The service", "The question"

Url = Annotated[
    str | None,
    typer.Option(
        envvar="SMOOTHCERT_URL", help="its address; http://127.0.0.1:8000 if left out", rich_help_panel=SERVICE
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(envvar="SMOOTHCERT_API_KEY", help="others on this machine can see it here", rich_help_panel=SERVICE),
]

Radius = Annotated[
    float | None, typer.Option(help="to prove (l2, pixels in [0, 1]); fixed has none", rich_help_panel=QUESTION)
]
EnsembleName = Annotated[str | None, typer.Option(help="may be left out where one is served", rich_help_panel=QUESTION)]
Sigma = Annotated[
    float | None, typer.Option(help="of the noise; the ensemble's own if left out", rich_help_panel=QUESTION)
]
AnySigma = Annotated[
    bool, typer.Option("--allow-sigma-mismatch", help="another sigma than the ensemble's", rich_help_panel=QUESTION)
]
Alpha = Annotated[float, typer.Option(help="chance of a false certificate", rich_help_panel=QUESTION)]
Beta = Annotated[float, typer.Option(help="chance of abandoning what could be proved", rich_help_panel=QUESTION)]
ProcedureText = Annotated[
    str,
    typer.Option(
        help="adaptive, sequential, fixed, or a JSON object such as "
        """'{"name": "fixed", "n": 10000}'""",
        rich_help_panel=QUESTION,
    ),
]
VotingName = Annotated[
    str | None,
    typer.Option(help="soft, softmax, hard, weighted; the ensemble's own if left out", rich_help_panel=QUESTION),
]
Consensus = Annotated[
    int | None, typer.Option(help="K: ask the others only where the first K disagree", rich_help_panel=QUESTION)
]
Convert = Annotated[
    str,
    typer.Option(help="rgb, grey: change images that the ensemble does not take as they are", rich_help_panel=QUESTION),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


def connected(url: str | None, api_key: str | None, **more: Any) -> Client:
    """A client of the service."""
    from smoothcert.client import Client

    return Client(url, api_key, **more)


def asked(*, procedure: str, **question: Any) -> dict[str, Any]:
    """The question as the client takes it; what was left out is left to the service."""
    said = {name: value for name, value in question.items() if value is not None}
    return {**said, "procedure": _procedure(procedure)}


def _procedure(text: str) -> Any:
    from smoothcert.errors import DomainError

    if not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise DomainError(f"--procedure {text!r} is no JSON: {error}") from None
