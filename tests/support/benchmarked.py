"""`python -m benchmarks` on a small zoo."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Benchmark = Callable[..., tuple[int | str, str]]


def command(zoo: Path, out: Path, *more: object) -> list[str]:
    arguments = ["--zoo", zoo, "--ensemble", "two", "--images", zoo / "eight.json", "--out", out]
    arguments += ["--n", 300, "--timed", 50, *more]
    return [sys.executable, "-m", "benchmarks", "evaluate", *map(str, arguments)]


def lines(path: Path) -> list[dict[str, Any]]:
    """The certificates of a ledger without their times."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for line in found[1:]:
        del line["seconds"], line["certificate"]["digest"]
        del line["certificate"]["provenance"]["started_at"], line["certificate"]["provenance"]["finished_at"]
    return found
