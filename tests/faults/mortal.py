"""The process of an API that dies at a step of its archivist."""

from __future__ import annotations

import sys

from tests.support.api import Api


class MortalApi(Api):
    """`python -m tests.faults.mortal_api`, in the place of `python -m app`."""

    command = (sys.executable, "-m", "tests.faults.mortal_api")
