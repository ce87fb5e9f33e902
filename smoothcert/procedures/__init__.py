"""Procedures decide how many samples to draw and what they prove; they know nothing of networks.

Each is a generator that yields the number of further samples it wants, is sent the class counts of exactly those
(one entry per class and a last one for no class), and returns its `Verdict`:

    verdict = run(certify_adaptive(Gaussian(0.25), 0.25), sample)

A further procedure is one more file here and an entry in `AnyProcedure`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from smoothcert.procedures.adaptive import Adaptive, certify_adaptive
from smoothcert.procedures.fixed import Fixed, certify
from smoothcert.procedures.prediction import predict
from smoothcert.procedures.protocol import Procedure, run
from smoothcert.procedures.sequential import Sequential, certify_sequential

AnyProcedure = Annotated[Fixed | Adaptive | Sequential, Field(discriminator="name")]

__all__ = [
    "Adaptive",
    "AnyProcedure",
    "Fixed",
    "Procedure",
    "Sequential",
    "certify",
    "certify_adaptive",
    "certify_sequential",
    "predict",
    "run",
]
