"""The procedure of a question that names none."""

from __future__ import annotations

from smoothcert.noise import Noise
from smoothcert.procedures.exact import Exact
from smoothcert.procedures.fixed import Fixed
from smoothcert.procedures.optimal import Optimal
from smoothcert.procedures.parameters import Parameters


def preferred(radius: float | None, noise: Noise | None = None) -> Parameters:
    """`optimal` with a radius to prove and `fixed` without one; `exact` for a noise of few outcomes.

    `Smoothed`, the SDK and the command line use it. The HTTP API keeps the paper's, `adaptive`.
    """
    if noise is not None and noise.exhaustible:
        return Exact()
    return Fixed() if radius is None else Optimal()
