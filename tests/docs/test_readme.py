"""The first steps of the README run, and so do the commands of an operator."""

from __future__ import annotations

import pytest

from tests.support.clone import Clone
from tests.support.walkthrough import follow

PAGES = ("README.md", "docs/README.md", "docs/operation.md")


@pytest.mark.parametrize("page", PAGES)
def test_it_runs(page: str, clone: Clone) -> None:
    follow(page, clone)
