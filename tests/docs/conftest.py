"""A clone for all pages that one process follows, and the service in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.clone import Clone


@pytest.fixture(scope="package")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    clone = Clone(tmp_path_factory.mktemp("clone"))
    yield clone
    clone.close()
