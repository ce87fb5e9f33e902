"""Procedures that draw all their samples and look at the counts once."""

from __future__ import annotations

from abc import ABC

from smoothcert.procedures.parameters import Parameters


class OneLook(Parameters, ABC):
    """Has no target radius, and never abandons a run."""

    @property
    def targeted(self) -> bool:
        return False

    @property
    def abandoning(self) -> None:
        return None

    @property
    def look_count(self) -> int:
        return 1
