"""What the shell offers for the values of options."""

from __future__ import annotations

import os
from typing import get_args


def procedures(incomplete: str) -> list[str]:
    """The names of the procedures that a request can choose."""
    from smoothcert.procedures import PROCEDURES

    return [name for name in PROCEDURES.offered if name.startswith(incomplete)]


def votings(incomplete: str) -> list[str]:
    """The names of the voting rules."""
    from smoothcert.request import Voting

    return [name for name in get_args(Voting) if name.startswith(incomplete)]


def ensembles(incomplete: str) -> list[str]:
    """The names of the ensembles of the service; none if it does not answer at once."""
    from smoothcert.client import Client
    from smoothcert.errors import SmoothcertError

    try:
        with Client(os.environ.get("SMOOTHCERT_URL"), timeout=1, retries=0) as client:
            return [each.name for each in client.ensembles.list() if each.name.startswith(incomplete)]
    except SmoothcertError:  # a shell that completes a word shows no errors
        return []
