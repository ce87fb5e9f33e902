"""The commands of the page about ensembles run: it adds some, and serves them in place of the shipped ones."""

from __future__ import annotations

import pytest

from tests.support.clone import Clone
from tests.support.walkthrough import follow

PAGES = ("docs/ensembles.md",)


@pytest.mark.parametrize("page", PAGES)
def test_it_runs(page: str, clone: Clone) -> None:
    follow(page, clone)
