"""Several certificates as a list that terminals and notebooks show as a table."""

from __future__ import annotations

from collections import Counter

from smoothcert.certificate import Certificate
from smoothcert.figures import counted, interval_text, radius_text
from smoothcert.notebook import interval
from smoothcert.tables import html_table

COLUMNS = ("", "decision", "class", "radius", "p_A", "samples")
MOST_ROWS = 40
"""The most rows of a table; of a longer list, the first and the last ones are shown."""
LONGEST_NAME = 30
"""The most characters of the name of a class in a terminal."""


class Certificates(list[Certificate]):
    def __repr__(self) -> str:
        rows = [COLUMNS, *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([self._summary(), *lines]) if self else self._summary()

    def _repr_html_(self) -> str:
        return f"<p>{self._summary()}</p>{html_table(COLUMNS, self._rows())}"

    def _summary(self) -> str:
        outcomes = Counter[str](each.outcome for each in self)
        found = ", ".join(f"{outcomes[word]:,} {word}" for word in WORDS if outcomes[word])
        return counted(len(self), "certificate") + (f": {found}" if found else "")

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [(str(place), *_cells(each)) for place, each in enumerate(self)]
        if len(rows) <= MOST_ROWS:
            return rows
        half = MOST_ROWS // 2
        return [*rows[:half], ("...",) * len(COLUMNS), *rows[-half:]]


WORDS = ("certified", "predicted", "abstained")
"""The outcomes, in the order in which they are counted."""


def _cells(each: Certificate) -> tuple[str, ...]:
    p_a, claimed = interval(each), each.decision == "certified"
    name = each.class_name or str(each.class_index)
    printable = "".join(character if character.isprintable() else "?" for character in name)
    return (
        each.outcome if claimed else each.decision,
        printable[:LONGEST_NAME] if claimed else "–",
        radius_text(each.radius) if each.outcome == "certified" else "–",
        interval_text(p_a, 4) if p_a else "–",
        f"{each.samples:,}",
    )
