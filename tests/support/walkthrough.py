"""The pages of the documentation as a reader follows them: every block, from the top of a page to its end."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.blocks import Block, blocks
from tests.support.clone import ROOT, SERVE, Clone

BLOCKS = [block for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) for block in blocks(page, ROOT)]
SHOWN = {"", "text"}
"""The languages of blocks that show output; they are not typed."""
TYPED = [block for block in BLOCKS if block.language not in SHOWN and not block.note]


def left_to(test: str) -> list[Block]:
    """The blocks above which a comment names this test file as the one that runs them."""
    return [block for block in BLOCKS if block.note == f"run by {Path(test).relative_to(ROOT)}"]


def follow(page: str, clone: Clone) -> None:
    """Run every block of a page. A service runs before the first one, unless the page starts another by itself."""
    typed = [block for block in TYPED if block.file == page]
    if not any(map(starts_another_service, typed)):
        clone.open_page()
    for block in typed:
        try:
            printed = run(block, clone)
            if (expected := output_of(block)) is not None and block.language == "python":
                assert printed.split() == expected.split()
        except Exception as error:
            error.add_note(f"this is {block}")
            raise
    assert not (left := clone.untracked()), f"{page} leaves what .gitignore does not name: {', '.join(left)}"


def starts_another_service(block: Block) -> bool:
    """Whether a block starts a service other than the one that every page expects."""
    commands = [command.partition("#")[0].strip() for command in block.commands]
    return any(SERVE in command and command != SERVE for command in commands)


def output_of(block: Block) -> str | None:
    """The text of the block without a language right after this one, which is what it prints."""
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
