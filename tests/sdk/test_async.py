"""`AsyncClient` does what `Client` does, on an event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import numpy as np
import pytest

from smoothcert import AsyncClient, Client
from smoothcert.certificate import Certificate
from smoothcert.client import asynchronous, blocking, errors
from tests.service import free_port
from tests.support.questions import DARK, ENDLESS, HARD, LIGHT, QUICK
from tests.support.rogue import Rogue, cut_after, lose_answer
from tests.support.worker_networks import SHAPE

T = TypeVar("T")


def run(url: str, work: Callable[[AsyncClient], Awaitable[T]], **options: Any) -> T:
    async def main() -> T:
        async with AsyncClient(url, **options) as client:
            return await work(client)

    return asyncio.run(main())


def public(kind: type) -> dict[str, list[str]]:
    """The methods of a class, and the names of their parameters."""
    methods = {name: each for name, each in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    return {name.replace("aclose", "close"): [*inspect.signature(each).parameters] for name, each in methods.items()}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Client, AsyncClient),
        (blocking.Certifications, asynchronous.AsyncCertifications),
        (blocking.Ensembles, asynchronous.AsyncEnsembles),
    ],
)
def test_both_have_the_same_methods(one: type, other: type) -> None:
    assert public(one) == public(other)


def test_many_certify_at_a_time_and_each_gets_its_own(service: str) -> None:
    async def work(client: AsyncClient) -> list[Certificate]:
        return await asyncio.gather(*(client.certify(LIGHT if n % 2 else DARK, **QUICK) for n in range(32)))

    assert [each.class_index for each in run(service, work)] == [n % 2 for n in range(32)]


def test_the_way_of_a_certification(service: str) -> None:
    async def work(client: AsyncClient) -> None:
        assert [each.name for each in await client.ensembles.list()] == ["moody", "trivial"]
        assert (await client.ensembles.get("moody")).ready
        assert (await client.plan(**QUICK)).feasible
        submitted = await client.submit([DARK, LIGHT], **QUICK, labels=["dark", "light"])
        assert submitted.request.labels == (0, 1)
        events = [event async for event in client.certifications.events(submitted.id)]
        assert events[-1].name == "completed"
        ended = await client.certifications.wait(submitted.id)
        assert ended == await client.certifications.get(submitted.id)
        assert (await client.verify(ended.certificates[0])).consistent
        async with aclosing(client.certifications.list(status="succeeded")) as listed:
            assert (await anext(listed)).id == submitted.id
        await client.certifications.delete(submitted.id)
        with pytest.raises(errors.UnknownCertificationError):
            await client.certifications.cancel(submitted.id)

    run(service, work)


def test_cuts_are_survived(rogue: Rogue) -> None:
    async def work(client: AsyncClient) -> list[Certificate]:
        return await client.certify([DARK, LIGHT], **QUICK)

    rogue.plan("POST /v1/certifications", lose_answer)
    rogue.plan("/events", cut_after(1), times=2)
    assert [each.class_index for each in run(rogue.url, work)] == [0, 1]
    assert len({seen.headers["Idempotency-Key"] for seen in rogue.requests("POST")}) == 1
    assert len(rogue.requests("/events")) > 1


def test_a_service_that_is_away_is_named() -> None:
    async def work(client: AsyncClient) -> None:
        with pytest.raises(errors.NoAnswerError, match="is it running"):
            await client.ensembles.list()

    run(f"http://127.0.0.1:{free_port()}", work, retries=0)


@pytest.mark.parametrize("on_timeout", ["cancel", "leave"])
def test_a_task_that_is_canceled_cancels_or_leaves(service: str, on_timeout: Any) -> None:
    async def work(client: AsyncClient) -> None:
        started = asyncio.Event()
        task = asyncio.create_task(
            client.certify(DARK, progress=lambda _: started.set(), on_timeout=on_timeout, **ENDLESS)
        )
        await started.wait()
        newest = await anext(client.certifications.list())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        status = (await client.certifications.get(newest.id)).status
        assert (status in ("canceled", "canceling")) == (on_timeout == "cancel")
        await client.certifications.cancel(newest.id)
        assert (await client.certifications.wait(newest.id)).status == "canceled"

    run(service, work)


def test_a_timeout_of_asyncio_is_a_timeout(service: str) -> None:
    async def work(client: AsyncClient) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await client.certify(DARK, **ENDLESS)
        newest = await anext(client.certifications.list())
        assert (await client.certifications.wait(newest.id)).status == "canceled"

    run(service, work)


def test_a_data_set_may_be_asynchronous(service: str, tmp_path: Any) -> None:
    async def source() -> AsyncIterator[Any]:
        for number in range(20):
            await asyncio.sleep(0)
            yield LIGHT if number % 2 else DARK

    async def work(client: AsyncClient) -> None:
        out = tmp_path / "out.jsonl"
        found = [each async for each in client.certify_many(source(), job_images=4, out=out, **QUICK)]
        assert [each.class_index for each in found] == [0, 1] * 10
        images = [LIGHT if number % 2 else DARK for number in range(20)]
        assert [each async for each in client.certify_many(images, out=out, **QUICK)] == found

    run(service, work)


def test_whoever_breaks_off_a_data_set_cancels_it(service: str) -> None:
    async def work(client: AsyncClient) -> None:
        before = {each.id async for each in client.certifications.list()}
        images = [DARK] * 4 + [np.full(SHAPE, HARD)] * 12
        async with aclosing(client.certify_many(images, job_images=4, **{**QUICK, "ensemble": "moody"})) as running:
            async for _ in running:
                break
        made = [each.id async for each in client.certifications.list() if each.id not in before]
        ends = [(await client.certifications.wait(each)).status for each in made]
        assert ends == ["canceled"] * 3 + ["succeeded"]

    run(service, work)
