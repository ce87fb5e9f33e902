"""A few tries of each fault: nothing is lost and nothing is wrong. `python -m tests.faults` runs all tries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from store import keys
from tests.faults.disk_full import NoMountError
from tests.faults.fault import Fault, Stage, run
from tests.faults.faults import FAULTS, small
from tests.faults.hosts import NoNamespacesError
from tests.faults.service import Service
from tests.faults.witness import Witness

SEED = 0


class Services:
    """One service for each stage, one at a time; the faults of a stage follow each other."""

    def __init__(self, stack: ExitStack, folders: pytest.TempPathFactory) -> None:
        self._stack, self._folders = stack, folders
        self._stage: Stage | None = None
        self._service: Service

    def on(self, stage: Stage) -> Service:
        if stage != self._stage:
            self._stack.close()
            self._stage = None
            self._service = self._stack.enter_context(stage(self._folders.mktemp("service")))
            self._stage = stage
        return self._service


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with ExitStack() as stack:
        yield Services(stack, tmp_path_factory)


def test_the_witness_sees_what_is_lost_what_is_wrong_and_what_ended_twice(services: Services) -> None:
    service = services.on(small)
    witness = Witness(service)
    lost, swapped = (witness.submit(question) for question in service.exhibit.questions[:2])
    witness.await_ends()
    service.redis.delete(keys.record(lost))
    service.redis.hset(keys.certificates(swapped), 0, service.redis.hget(keys.certificates(swapped), 1))
    witness.audit()
    assert witness.lost == [f"{lost} is gone"]
    twice = "2 ends were counted for 1 certifications that succeeded"
    assert witness.wrong == [f"{swapped} has other certificates", twice]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_nothing_is_lost_and_nothing_is_wrong(fault: Fault, services: Services) -> None:
    try:
        service = services.on(fault.stage)
    except (NoMountError, NoNamespacesError) as error:
        pytest.skip(str(error))
    outcome = run(fault, service, tries=fault.share, seed=SEED)
    assert outcome.certifications >= fault.share
    assert (outcome.lost, outcome.wrong) == ((), ())
