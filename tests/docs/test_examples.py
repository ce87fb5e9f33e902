"""Every command and every block of code in README and docs is run by a test.

The other files of this folder follow the pages in a clone, each from its top to its end. They are separate files so
that they run side by side. A block that needs Docker or an hour is run by another test, which a comment above it names:
<!-- run by FILE -->.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import test_ensembles, test_guarantee, test_readme
from tests.support.blocks import Block
from tests.support.clone import ROOT
from tests.support.walkthrough import BLOCKS, TYPED

FOLLOWED = [*test_readme.PAGES, *test_guarantee.PAGES, *test_ensembles.PAGES]


def test_every_page_with_blocks_is_followed_once() -> None:
    assert sorted(FOLLOWED) == sorted({block.file for block in TYPED})


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.note], ids=str)
def test_the_test_that_is_named_above_a_block_runs_it(block: Block) -> None:
    before, _, name = block.note.partition("run by ")
    assert not before, f"{block.note!r} is not `run by FILE`"
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.lstrip().startswith("#")]
    text = " ".join(" ".join(lines).split())
    if "left_to(__file__)" in text:  # it reads its blocks from the page
        return
    missing = [command for command in block.commands if command.strip() not in text]
    assert not missing


def test_there_are_blocks_to_run() -> None:
    assert {Path(block.file).name for block in BLOCKS} >= {"README.md", "guarantee.md", "ensembles.md"}
