"""`AsyncClient`: performs the same steps on an event loop of asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, Unpack, overload

import httpx

from smoothcert.certificate import Certificate
from smoothcert.certification import Certification, CertificationSummary, Status
from smoothcert.client.address import Address
from smoothcert.client.bar import Shown, showing
from smoothcert.client.core import Certifying, Core, Leaving
from smoothcert.client.deadline import Deadline
from smoothcert.client.events import Event
from smoothcert.client.exchange import Exchange
from smoothcert.client.images import File, Image, Several, each, encode_all, is_single
from smoothcert.client.many import JOB_IMAGES, certify_many
from smoothcert.client.outgoing import TIMEOUT_S, opened, outgoing
from smoothcert.client.question import RequestFields, ask
from smoothcert.client.retries import Retries
from smoothcert.client.steps import EXHAUSTED, HangUp, Hear, Listen, Play, Pull, Send, Sleep, Step, Steps, Tell
from smoothcert.published import PlanAnswer, ServedEnsemble, VerificationAnswer
from smoothcert.request import CertificationRequest

R = TypeVar("R")


class AsyncClient:
    """`Client` for asyncio: every method means what it means there. Tasks may share it."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | None = TIMEOUT_S,
        retries: int = Retries.most,
    ) -> None:
        address = Address.of(base_url, api_key)
        http = opened(httpx.AsyncClient, address, timeout)
        self._core, self._driver = Core(Exchange(address, Retries(most=retries))), AsyncDriver(http)
        self.certifications = AsyncCertifications(self._core, self._driver)
        self.ensembles = AsyncEnsembles(self._core, self._driver)

    def __repr__(self) -> str:
        return f"AsyncClient({self._core.exchange.address.url!r})"

    @overload
    async def certify(self, images: File, **asked: Unpack[Certifying]) -> Certificate: ...
    @overload
    async def certify(self, images: Several, **asked: Unpack[Certifying]) -> list[Certificate]: ...
    @overload
    async def certify(self, images: Image | Iterable[Image], **asked: Unpack[Certifying]) -> Any: ...
    async def certify(
        self,
        images: Image | Iterable[Image],
        *,
        wait_timeout: float | None = None,
        progress: Shown = None,
        on_timeout: Leaving = "cancel",
        **question: Unpack[RequestFields],
    ) -> Certificate | list[Certificate]:
        """Certify an image, or several. A task that is canceled cancels the certification, or leaves it."""
        with showing(progress) as report:
            steps = self._core.certify(
                encode_all(images), question, wait_timeout=wait_timeout, leaving=on_timeout, report=report
            )
            found = await self._driver.perform(steps)
        return found[0] if is_single(images) else [*found]

    async def submit(self, images: Image | Iterable[Image], **question: Unpack[RequestFields]) -> Certification:
        """Submit an image, or several, and do not wait for the certificates."""
        return await self._driver.perform(self._core.submit(encode_all(images), ask(question, CertificationRequest)))

    def certify_many(
        self,
        images: Iterable[Image] | AsyncIterable[Image],
        *,
        out: str | PathLike[str] | None = None,
        job_images: int = JOB_IMAGES,
        on_timeout: Leaving = "cancel",
        **question: Unpack[RequestFields],
    ) -> AsyncGenerator[Certificate, None]:
        """The certificates of a whole data set, which may be an asynchronous iterable.

        Who may break off iterates within `contextlib.aclosing`, so that what is under way is canceled there and then.
        """
        path = None if out is None else Path(out)
        steps = certify_many(self._core, question, out=path, job_images=job_images, leaving=on_timeout)
        return self._driver.told(steps, images if isinstance(images, AsyncIterable) else each(images))

    async def plan(self, *, image_count: int = 1, **question: Unpack[RequestFields]) -> PlanAnswer:
        """What the question could prove and what it would cost."""
        return await self._driver.perform(self._core.plan(question, image_count))

    async def verify(self, certificate: Certificate | str | bytes) -> VerificationAnswer:
        """Whether all of a certificate follows from its counts, as the service sees it."""
        return await self._driver.perform(self._core.verify(certificate))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._driver.http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class AsyncCertifications:
    """`client.certifications`."""

    def __init__(self, core: Core, driver: AsyncDriver) -> None:
        self._core, self._driver = core, driver

    async def get(self, id: str) -> Certification:  # noqa: A002
        """As it is now."""
        return await self._driver.perform(self._core.get(id))

    def list(self, *, status: Status | None = None) -> AsyncGenerator[CertificationSummary, None]:
        """One's own, the newest first."""
        return self._driver.told(self._core.summaries(status))

    async def cancel(self, id: str) -> Certification:  # noqa: A002
        """Cancel it."""
        return await self._driver.perform(self._core.cancel(id))

    async def delete(self, id: str) -> None:  # noqa: A002
        """Forget it and its certificates."""
        await self._driver.perform(self._core.delete(id))

    def events(self, id: str) -> AsyncGenerator[Event, None]:  # noqa: A002
        """What it is now and all that happens, until it ends."""
        return self._driver.told(self._core.events(id))

    async def wait(self, id: str, *, wait_timeout: float | None = None, progress: Shown = None) -> Certification:  # noqa: A002
        """The certification at its end, however it ended."""
        with showing(progress) as report:
            return await self._driver.perform(self._core.wait(id, Deadline(wait_timeout), report))


class AsyncEnsembles:
    """`client.ensembles`."""

    def __init__(self, core: Core, driver: AsyncDriver) -> None:
        self._core, self._driver = core, driver

    async def list(self) -> list[ServedEnsemble]:
        """All that are served."""
        return await self._driver.perform(self._core.ensembles())

    async def get(self, name: str) -> ServedEnsemble:
        """One of them."""
        return await self._driver.perform(self._core.ensemble(name))


class AsyncDriver:
    """Performs steps."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def perform(self, steps: Steps[R]) -> R:
        """Their result."""
        play = Play(steps)
        async for _ in self._tell(play, ()):
            pass
        return play.result

    async def told(
        self, steps: Steps[None], source: Iterable[Any] | AsyncIterable[Any] = ()
    ) -> AsyncGenerator[Any, None]:
        """What they tell; nothing is done before somebody asks for the first."""
        async with aclosing(self._tell(Play(steps), source)) as what_is_told:
            async for what in what_is_told:
                yield what

    async def _tell(self, play: Play[Any], source: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
        async with AsyncLine(self.http, source) as line:
            while (step := play.step) is not None:
                try:
                    came = (yield step.what) if isinstance(step, Tell) else await line.perform(step)
                except BaseException as error:  # also the cancellation of the task
                    play.throw(error)
                else:
                    play.answer(came)


class AsyncLine:
    """One performance: at most one stream that is listened to, and what the caller iterates over."""

    def __init__(self, http: httpx.AsyncClient, source: Iterable[Any] | AsyncIterable[Any]) -> None:
        self._http = http
        self._source = aiter(source) if isinstance(source, AsyncIterable) else _in_turn(source)
        self._response: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] = _in_turn(())

    async def perform(self, step: Step) -> Any:
        """What came of the step."""
        match step:
            case Listen():
                return await self._listen(step)
            case Send():
                return await self._http.send(outgoing(self._http, step))
            case Hear():
                return await anext(self._chunks, b"")
            case HangUp():
                return await self._hang_up()
            case Sleep():
                return await asyncio.sleep(step.seconds)
            case Pull():
                return await anext(self._source, EXHAUSTED)

    async def _listen(self, step: Listen) -> httpx.Response:
        await self._hang_up()
        self._response = await self._http.send(outgoing(self._http, step), stream=True)
        if not self._response.is_success:
            await self._response.aread()
        self._chunks = self._response.aiter_bytes()
        return self._response

    async def _hang_up(self) -> None:
        if self._response is not None:
            await self._response.aclose()
        self._response = None

    async def __aenter__(self) -> AsyncLine:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._hang_up()


async def _in_turn(source: Iterable[Any]) -> AsyncIterator[Any]:
    for each_one in source:
        yield each_one
