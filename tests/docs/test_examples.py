"""Every command and every block of code in README and docs runs, in a clone, from the top of the page to its end.

A block that another test runs, since it takes Docker or an hour, names it in a comment above: <!-- run by FILE -->.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks
from tests.docs.clone import ROOT, Clone

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [block for page in PAGES for block in blocks(page, ROOT)]
SHOWN = {"", "text"}
"""What is shown, not typed."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    clone = Clone(tmp_path_factory.mktemp("clone"))
    yield clone
    clone.close()


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language not in SHOWN and not b.note], ids=str)
def test_it_runs(block: Block, clone: Clone) -> None:
    clone.open(block.file)
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
            pytest.fail(f"nobody knows how to run {other!r}")


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.note], ids=str)
def test_whoever_is_said_to_run_a_block_does(block: Block) -> None:
    said, _, name = block.note.partition("run by ")
    assert not said, f"{block.note!r} does not say `run by FILE`"
    text = (ROOT / name).read_text()
    missing = [command for command in block.commands if command.strip() not in " ".join(text.split())]
    assert not missing


def test_there_are_blocks_to_run() -> None:
    assert {Path(block.file).name for block in BLOCKS} >= {"README.md", "guarantee.md", "ensembles.md"}
