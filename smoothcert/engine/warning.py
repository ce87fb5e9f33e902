"""Warnings of `Smoothed`, each at the line of the user's own code that led to it."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
"""The folder of smoothcert, whose own lines a warning never names."""


class SmoothedWarning(UserWarning):
    """Something about a model that Smoothed has corrected, or that is probably not intended."""


def warn(message: str) -> None:
    """Warn at the innermost line outside smoothcert; the number of calls between that line and here varies."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, SmoothedWarning, stacklevel=level)
