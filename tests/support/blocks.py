"""The blocks of code in a Markdown file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    file: str
    line: int
    language: str
    text: str
    note: str
    """The comment right above the block, which names the test that runs it if another one does."""

    @property
    def commands(self) -> list[str]:
        """The text after each `$ `; a backslash continues in the next line."""
        joined = self.text.replace("\\\n", " ")
        return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def blocks(path: Path, root: Path) -> list[Block]:
    """All blocks of a file, in their order."""
    text = path.read_text()
    name = str(path.relative_to(root))
    return [
        Block(name, text[: found.start("text")].count("\n"), found["language"], found["text"], found["note"] or "")
        for found in FENCE.finditer(text)
    ]
