"""The service with the shipped ensemble."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.registry import ZOO
from tests.support.api import Api
from tests.support.whole import whole_service

NAME = "cifar10-resnet20-gaussian-0.25"


@contextmanager
def shipped(folder: Path) -> Iterator[Api]:
    """The service, running in this context, with its data in the folder."""
    with whole_service(folder, ZOO, ensembles=NAME) as api:
        yield api
