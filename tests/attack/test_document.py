"""Each line of the tables of attempts in docs/security.md names tests, and each of these exists."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.support.api import ROOT

HEAD = "| attempt | defence | test |"
TEST = re.compile(r"`(\w+/\w+\.py)::(\w+)`")


def lines() -> list[str]:
    """The lines of the tables of attempts."""
    found: list[str] = []
    within = False
    for line in (ROOT / "docs" / "security.md").read_text().splitlines():
        within = line == HEAD or (within and line.startswith("|"))
        if within and line != HEAD and not line.startswith("|---"):
            found.append(line)
    return found


@cache
def defined_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_line_names_tests_that_exist() -> None:
    assert len(lines()) > 50
    for line in lines():
        *_, tests, _ = line.split("|")
        named = TEST.findall(tests)
        assert named, line
        assert [f"{file}::{name}" for file, name in named if name not in defined_in(file)] == [], line
