"""The commands of the pages about certificates run: what certificates say, and how parameters are chosen."""

from __future__ import annotations

import pytest

from tests.support.clone import Clone
from tests.support.walkthrough import follow

PAGES = ("docs/guarantee.md", "docs/parameters.md", "docs/reports.md")


@pytest.mark.parametrize("page", PAGES)
def test_it_runs(page: str, clone: Clone) -> None:
    follow(page, clone)
