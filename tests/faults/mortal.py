"""The API that dies at a step of its archivist, as a process."""

from __future__ import annotations

import sys

from tests.support.api import Api


class MortalApi(Api):
    """`python -m tests.faults.mortal_api`, in the place of `python -m app`."""

    command = (sys.executable, "-m", "tests.faults.mortal_api")
