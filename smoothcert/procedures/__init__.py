"""Procedures decide how many samples to draw and what they prove; they do not depend on networks.

Each is a generator that yields the number of further samples it needs, is sent the class counts of exactly those
(one entry per class and a last one for samples without a class), and returns its `Verdict`:

    verdict = run(certify_adaptive(Gaussian(0.25), 0.25), sample)

A further procedure is a new file here, its entry in `PROCEDURES`, and its test.
"""

from __future__ import annotations

from typing import Annotated

from smoothcert.kinds import Kinds
from smoothcert.procedures.adaptive import Adaptive, certify_adaptive
from smoothcert.procedures.exact import Exact, certify_exactly
from smoothcert.procedures.fixed import Fixed, certify
from smoothcert.procedures.hierarchy import Hierarchy, Superclass, certify_hierarchy
from smoothcert.procedures.largest import Largest, certify_largest
from smoothcert.procedures.optimal import Optimal, certify_optimal
from smoothcert.procedures.parameters import Parameters
from smoothcert.procedures.prediction import Predict, predict
from smoothcert.procedures.preferred import preferred
from smoothcert.procedures.protocol import Procedure, run
from smoothcert.procedures.sequential import Sequential, certify_sequential
from smoothcert.procedures.transfer import Transfer, certify_transferred

PROCEDURES: Kinds[Parameters] = Kinds("procedure", lambda kind: not (kind.local or kind.predicts))
for kind in (Fixed, Adaptive, Optimal, Sequential, Largest, Hierarchy, Exact, Predict, Transfer):
    PROCEDURES.add(kind)

AnyProcedure = Annotated[Parameters, PROCEDURES]
"""Every procedure that a request or a certificate can name, as a pydantic type."""

__all__ = [
    "PROCEDURES",
    "Adaptive",
    "AnyProcedure",
    "Exact",
    "Fixed",
    "Hierarchy",
    "Largest",
    "Optimal",
    "Parameters",
    "Predict",
    "Procedure",
    "Sequential",
    "Superclass",
    "Transfer",
    "certify",
    "certify_adaptive",
    "certify_exactly",
    "certify_hierarchy",
    "certify_largest",
    "certify_optimal",
    "certify_sequential",
    "certify_transferred",
    "predict",
    "preferred",
    "run",
]
