"""`AsyncClient`, which performs the same steps on an event loop of asyncio."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, Unpack, overload

import httpx2

from smoothcert.certificate import Certificate
from smoothcert.certificates import Certificates
from smoothcert.certification import Certification, CertificationSummary, Status
from smoothcert.client.address import Address
from smoothcert.client.bar import Shown, showing
from smoothcert.client.core import Certifying, Core, Leaving, Predicting
from smoothcert.client.deadline import Deadline
from smoothcert.client.events import Event
from smoothcert.client.exchange import Exchange
from smoothcert.client.fields import RequestFields
from smoothcert.client.images import File, Image, Several, each, encode_all, is_single
from smoothcert.client.many import JOB_IMAGES, certify_many
from smoothcert.client.outgoing import TIMEOUT_S, make_outgoing, open_http
from smoothcert.client.retries import Retries
from smoothcert.client.steps import (
    EXHAUSTED,
    CloseStream,
    Emit,
    OpenStream,
    Pull,
    ReadChunk,
    Send,
    Sleep,
    Step,
    StepRun,
    Steps,
)
from smoothcert.errors import refusing_unknown
from smoothcert.prediction import Prediction
from smoothcert.procedures.prediction import N
from smoothcert.published import EnsembleList, PlanAnswer, ServedEnsemble, VerificationAnswer

R = TypeVar("R")


class AsyncClient:
    """`Client` for asyncio: every method does the same as there. Tasks may share it."""

    @refusing_unknown
    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | None = TIMEOUT_S,
        retries: int | None = None,
    ) -> None:
        address = Address.of(base_url, api_key)
        http = open_http(httpx2.AsyncClient, address, timeout)
        self._core, self._driver = Core(Exchange(address, Retries.of(retries))), AsyncDriver(http)
        self.certifications = AsyncCertifications(self._core, self._driver)
        self.ensembles = AsyncEnsembles(self._core, self._driver)

    def __repr__(self) -> str:
        return f"AsyncClient({self._core.exchange.address.url!r})"

    @overload
    async def certify(self, images: File, **options: Unpack[Certifying]) -> Certificate: ...
    @overload
    async def certify(self, images: Several, **options: Unpack[Certifying]) -> list[Certificate]: ...
    @overload
    async def certify(self, images: Image | Iterable[Image], **options: Unpack[Certifying]) -> Any: ...
    async def certify(
        self,
        images: Image | Iterable[Image],
        *,
        wait_timeout: float | None = None,
        progress: Shown = None,
        on_timeout: Leaving = "cancel",
        attest: bool = False,
        **fields: Unpack[RequestFields],
    ) -> Certificate | list[Certificate]:
        """Certify an image, or several. A canceled task cancels the certification, or leaves it to go on."""
        with showing(progress) as report:
            steps = self._core.certify(
                encode_all(images),
                fields,
                wait_timeout=wait_timeout,
                leaving=on_timeout,
                report=report,
                attest=attest,
            )
            found = await self._driver.perform(steps)
        return found[0] if is_single(images) else Certificates(found)

    @overload
    async def predict(self, images: File, **options: Unpack[Predicting]) -> Prediction: ...
    @overload
    async def predict(self, images: Several, **options: Unpack[Predicting]) -> list[Prediction]: ...
    @overload
    async def predict(self, images: Image | Iterable[Image], **options: Unpack[Predicting]) -> Any: ...
    async def predict(
        self,
        images: Image | Iterable[Image],
        *,
        n: int = N,
        wait_timeout: float | None = None,
        **fields: Unpack[RequestFields],
    ) -> Prediction | list[Prediction]:
        """The class of the smoothed classifier at an image, or at each of several, without a radius."""
        steps = self._core.predict(encode_all(images), fields, n=n, wait_timeout=wait_timeout)
        found = await self._driver.perform(steps)
        return found[0] if is_single(images) else [*found]

    async def submit(self, images: Image | Iterable[Image], **fields: Unpack[RequestFields]) -> Certification:
        """Submit an image, or several, and do not wait for the certificates."""
        return await self._driver.perform(self._core.ask(encode_all(images), fields))

    def certify_many(
        self,
        images: Iterable[Image] | AsyncIterable[Image],
        *,
        out: str | PathLike[str] | None = None,
        job_images: int = JOB_IMAGES,
        on_timeout: Leaving = "cancel",
        **fields: Unpack[RequestFields],
    ) -> AsyncGenerator[Certificate, None]:
        """The certificates of a whole data set, which may be an asynchronous iterable.

        A caller that may stop early iterates within `contextlib.aclosing`, so that the jobs under way are canceled then
        and there; with the file `out` they go on, and the next run asks for them again.
        """
        path = None if out is None else Path(out)
        steps = certify_many(self._core, fields, out=path, job_images=job_images, leaving=on_timeout)
        return self._driver.iterate(steps, images if isinstance(images, AsyncIterable) else each(images))

    async def plan(self, *, image_count: int = 1, **fields: Unpack[RequestFields]) -> PlanAnswer:
        """What such a request could prove and what it would cost."""
        return await self._driver.perform(self._core.plan(fields, image_count))

    async def verify(self, certificate: Certificate | str | bytes) -> VerificationAnswer:
        """Whether all of a certificate follows from its counts, computed by the service."""
        return await self._driver.perform(self._core.verify(certificate))

    async def aclose(self) -> None:
        await self._driver.http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class AsyncCertifications:
    """The certifications of the client's key: what `client.certifications` is."""

    def __init__(self, core: Core, driver: AsyncDriver) -> None:
        self._core, self._driver = core, driver

    async def get(self, id: str) -> Certification:  # noqa: A002
        return await self._driver.perform(self._core.get(id))

    def list(self, *, status: Status | None = None) -> AsyncGenerator[CertificationSummary, None]:
        return self._driver.iterate(self._core.summaries(status))

    async def cancel(self, id: str) -> Certification:  # noqa: A002
        return await self._driver.perform(self._core.cancel(id))

    async def delete(self, id: str) -> None:  # noqa: A002
        await self._driver.perform(self._core.delete(id))

    async def attestations(self, id: str) -> builtins.list[str]:  # noqa: A002
        """Its certificates, signed by the service; StillRunningError if it has not ended."""
        return await self._driver.perform(self._core.attestations(id))

    def events(self, id: str) -> AsyncGenerator[Event, None]:  # noqa: A002
        return self._driver.iterate(self._core.events(id))

    async def wait(self, id: str, *, wait_timeout: float | None = None, progress: Shown = None) -> Certification:  # noqa: A002
        with showing(progress) as report:
            return await self._driver.perform(self._core.wait(id, Deadline(wait_timeout), report))


class AsyncEnsembles:
    """The ensembles that the service offers: what `client.ensembles` is."""

    def __init__(self, core: Core, driver: AsyncDriver) -> None:
        self._core, self._driver = core, driver

    async def list(self) -> list[ServedEnsemble]:
        return [*(await self.overview()).data]

    async def overview(self) -> EnsembleList:
        """The ensembles that are served, and those that workers could not load, with the reason."""
        return await self._driver.perform(self._core.ensembles())

    async def get(self, name: str) -> ServedEnsemble:
        return await self._driver.perform(self._core.ensemble(name))


class AsyncDriver:
    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def perform(self, steps: Steps[R]) -> R:
        """The result of the steps."""
        running = StepRun(steps)
        async for _ in self._iterate(running, ()):
            pass
        return running.result

    async def iterate(
        self, steps: Steps[None], source: Iterable[Any] | AsyncIterable[Any] = ()
    ) -> AsyncGenerator[Any, None]:
        """The items that the steps emit; nothing is done before the first is requested."""
        async with aclosing(self._iterate(StepRun(steps), source)) as items:
            async for item in items:
                yield item

    async def _iterate(
        self, running: StepRun[Any], source: Iterable[Any] | AsyncIterable[Any]
    ) -> AsyncGenerator[Any, None]:
        async with AsyncSession(self.http, source) as session:
            while (step := running.step) is not None:
                try:
                    result = (yield step.item) if isinstance(step, Emit) else await session.perform(step)
                except BaseException as error:  # also the cancellation of the task
                    running.throw(error)
                else:
                    running.send(result)


class AsyncSession:
    """The state between steps: at most one open stream, and the iterable of the caller."""

    def __init__(self, http: httpx2.AsyncClient, source: Iterable[Any] | AsyncIterable[Any]) -> None:
        self._http = http
        self._source = aiter(source) if isinstance(source, AsyncIterable) else _in_turn(source)
        self._response: httpx2.Response | None = None
        self._chunks: AsyncIterator[bytes] = _in_turn(())

    async def perform(self, step: Step) -> Any:
        """The result of the step."""
        match step:
            case OpenStream():
                return await self._open_stream(step)
            case Send():
                return await self._http.send(make_outgoing(self._http, step))
            case ReadChunk():
                return await anext(self._chunks, b"")
            case CloseStream():
                return await self._close_stream()
            case Sleep():
                return await asyncio.sleep(step.seconds)
            case Pull():
                return await anext(self._source, EXHAUSTED)

    async def _open_stream(self, step: OpenStream) -> httpx2.Response:
        await self._close_stream()
        self._response = await self._http.send(make_outgoing(self._http, step), stream=True)
        if not self._response.is_success:
            await self._response.aread()
        self._chunks = self._response.aiter_bytes()
        return self._response

    async def _close_stream(self) -> None:
        if self._response is not None:
            await self._response.aclose()
        self._response = None

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close_stream()


async def _in_turn(source: Iterable[Any]) -> AsyncIterator[Any]:
    for each_one in source:
        yield each_one
