"""Every command and every block of code in README and docs runs, in a clone, from the top of the page to its end.

A block that another test runs, since it takes Docker or an hour, names it in a comment above: <!-- run by FILE -->.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.blocks import Block, blocks
from tests.support.clone import ROOT, Clone

BLOCKS = [block for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) for block in blocks(page, ROOT)]
SHOWN = {"", "text"}
"""What is shown, not typed."""
TYPED = [block for block in BLOCKS if block.language not in SHOWN and not block.note]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    clone = Clone(tmp_path_factory.mktemp("clone"))
    yield clone
    clone.close()


@pytest.mark.parametrize("page", dict.fromkeys(block.file for block in TYPED))
def test_it_runs(page: str, clone: Clone) -> None:
    clone.open_page()
    for block in filter(lambda block: block.file == page, TYPED):
        try:
            run(block, clone)
        except Exception as error:
            error.add_note(f"this is {block}")
            raise


def run(block: Block, clone: Clone) -> None:
    match block.language:
        case "console":
            assert block.commands, "a console block without a command"
            for command in block.commands:
                clone.run(command)
        case "python":
            clone.python(block.text)
        case "json":
            json.loads(block.text)
        case other:
            raise AssertionError(f"nobody knows how to run {other!r}")


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.note], ids=str)
def test_whoever_is_said_to_run_a_block_does(block: Block) -> None:
    said, _, name = block.note.partition("run by ")
    assert not said, f"{block.note!r} does not say `run by FILE`"
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.lstrip().startswith("#")]
    text = " ".join(" ".join(lines).split())
    missing = [command for command in block.commands if command.strip() not in text]
    assert not missing


def test_there_are_blocks_to_run() -> None:
    assert {Path(block.file).name for block in BLOCKS} >= {"README.md", "guarantee.md", "ensembles.md"}
