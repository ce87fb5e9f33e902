"""Every command and every block of code in README and docs runs, in a clone, from the top of the page to its end.

A block that needs Docker or an hour is run by another test, which a comment above it names: <!-- run by FILE -->.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.blocks import Block, blocks
from tests.support.clone import ROOT, SERVE, Clone

BLOCKS = [block for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) for block in blocks(page, ROOT)]
SHOWN = {"", "text"}
"""The languages of blocks that show output; they are not typed."""
TYPED = [block for block in BLOCKS if block.language not in SHOWN and not block.note]


def another_service(page: str) -> bool:
    """Whether a page starts a service other than the one that every page expects."""
    commands = [
        command.partition("#")[0].strip() for block in TYPED if block.file == page for command in block.commands
    ]
    return any(SERVE in command and command != SERVE for command in commands)


PAGES = sorted(dict.fromkeys(block.file for block in TYPED), key=another_service)
"""The pages with blocks to run. Those that start another service come last, so that the others share one."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    clone = Clone(tmp_path_factory.mktemp("clone"))
    yield clone
    clone.close()


@pytest.mark.parametrize("page", PAGES)
def test_it_runs(page: str, clone: Clone) -> None:
    clone.open_page()
    for block in filter(lambda block: block.file == page, TYPED):
        try:
            printed = run(block, clone)
            if (expected := output_of(block)) is not None and block.language == "python":
                assert printed.split() == expected.split()
        except Exception as error:
            error.add_note(f"this is {block}")
            raise


def output_of(block: Block) -> str | None:
    """The text of the block without a language that comes right after this one: what it prints."""
    (place,) = (i for i, other in enumerate(BLOCKS) if other is block)
    follower = BLOCKS[place + 1] if place + 1 < len(BLOCKS) else None
    shows = follower is not None and follower.file == block.file and follower.language in SHOWN
    return follower.text if follower and shows else None


def run(block: Block, clone: Clone) -> str:
    match block.language:
        case "console":
            assert block.commands, "a console block without a command"
            return "".join(clone.run(command) for command in block.commands)
        case "python":
            return clone.python(block.text)
        case "json":
            json.loads(block.text)
            return ""
        case other:
            raise AssertionError(f"a block must be console, python or json to be run, got {other!r}")


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.note], ids=str)
def test_the_test_that_is_named_above_a_block_runs_it(block: Block) -> None:
    before, _, name = block.note.partition("run by ")
    assert not before, f"{block.note!r} is not `run by FILE`"
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.lstrip().startswith("#")]
    text = " ".join(" ".join(lines).split())
    missing = [command for command in block.commands if command.strip() not in text]
    assert not missing


def test_there_are_blocks_to_run() -> None:
    assert {Path(block.file).name for block in BLOCKS} >= {"README.md", "guarantee.md", "ensembles.md"}
