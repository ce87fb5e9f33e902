"""`Client`: performs the steps with blocking sockets."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
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


class Client:
    """A client of the service; a context manager. Threads may share it.

    `base_url` and `api_key` are those of SMOOTHCERT_URL and SMOOTHCERT_API_KEY where they are not given. `timeout` is
    the longest, in seconds, that a request may wait for the service to say anything. `retries` is how often a request
    is sent again after connection errors, 408, 429 and 5xx; a certification is never made twice by that.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | None = TIMEOUT_S,
        retries: int = Retries.most,
    ) -> None:
        address = Address.of(base_url, api_key)
        http = opened(httpx.Client, address, timeout)
        self._core, self._driver = Core(Exchange(address, Retries(most=retries))), Driver(http)
        self.certifications = Certifications(self._core, self._driver)
        self.ensembles = Ensembles(self._core, self._driver)

    def __repr__(self) -> str:
        return f"Client({self._core.exchange.address.url!r})"

    @overload
    def certify(self, images: File, **asked: Unpack[Certifying]) -> Certificate: ...
    @overload
    def certify(self, images: Several, **asked: Unpack[Certifying]) -> list[Certificate]: ...
    @overload
    def certify(self, images: Image | Iterable[Image], **asked: Unpack[Certifying]) -> Any: ...
    def certify(
        self,
        images: Image | Iterable[Image],
        *,
        wait_timeout: float | None = None,
        progress: Shown = None,
        on_timeout: Leaving = "cancel",
        **question: Unpack[RequestFields],
    ) -> Certificate | list[Certificate]:
        """Certify an image, or several: a Certificate for one, a list in their order for several.

        `images` is a path, the bytes of a file, a PIL image, an array of numpy or torch, or several of them; the
        question is put by the fields of `CertificationRequest` (ensemble, sigma, radius, alpha, beta, procedure, ...).
        An abstention is an ordinary certificate. What ends without an answer raises the class of its code. After
        `wait_timeout` seconds, and on Ctrl-C, what was accepted is canceled, or left to go on: `on_timeout="leave"`.
        `progress` shows a bar: True, False, None for on a terminal, or a function that is called with each Progress.
        """
        with showing(progress) as report:
            steps = self._core.certify(
                encode_all(images), question, wait_timeout=wait_timeout, leaving=on_timeout, report=report
            )
            found = self._driver.perform(steps)
        return found[0] if is_single(images) else [*found]

    def submit(self, images: Image | Iterable[Image], **question: Unpack[RequestFields]) -> Certification:
        """Submit an image, or several, and do not wait for the certificates."""
        return self._driver.perform(self._core.submit(encode_all(images), ask(question, CertificationRequest)))

    def certify_many(
        self,
        images: Iterable[Image],
        *,
        out: str | PathLike[str] | None = None,
        job_images: int = JOB_IMAGES,
        on_timeout: Leaving = "cancel",
        **question: Unpack[RequestFields],
    ) -> Generator[Certificate, None, None]:
        """The certificates of a whole data set, in its order, as they come; `index` is the place in the job.

        The images are taken from the iterable as they are needed, and sent in jobs of up to `job_images`. With the
        file `out`, a run that was cut goes on where it was; its certificates so far come first.
        """
        path = None if out is None else Path(out)
        steps = certify_many(self._core, question, out=path, job_images=job_images, leaving=on_timeout)
        return self._driver.told(steps, each(images))

    def plan(self, *, image_count: int = 1, **question: Unpack[RequestFields]) -> PlanAnswer:
        """What the question could prove and what it would cost, before any sample is drawn."""
        return self._driver.perform(self._core.plan(question, image_count))

    def verify(self, certificate: Certificate | str | bytes) -> VerificationAnswer:
        """Whether all of a certificate, or of its JSON, follows from its counts, as the service sees it.

        `smoothcert.certificate.verify` does the same here, without asking anybody.
        """
        return self._driver.perform(self._core.verify(certificate))

    def close(self) -> None:
        """Close all connections."""
        self._driver.http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Certifications:
    """`client.certifications`."""

    def __init__(self, core: Core, driver: Driver) -> None:
        self._core, self._driver = core, driver

    def get(self, id: str) -> Certification:  # noqa: A002
        """As it is now, with the certificates that are finished."""
        return self._driver.perform(self._core.get(id))

    def list(self, *, status: Status | None = None) -> Iterator[CertificationSummary]:
        """One's own, the newest first; pages are fetched as they are needed."""
        return self._driver.told(self._core.summaries(status))

    def cancel(self, id: str) -> Certification:  # noqa: A002
        """Cancel it; its status is `canceling` where it takes a moment. AlreadyEndedError where it has ended."""
        return self._driver.perform(self._core.cancel(id))

    def delete(self, id: str) -> None:  # noqa: A002
        """Forget it and its certificates; StillRunningError where it has not ended."""
        self._driver.perform(self._core.delete(id))

    def events(self, id: str) -> Iterator[Event]:  # noqa: A002
        """What it is now and all that happens, until it ends; goes on by itself where the connection is cut."""
        return self._driver.told(self._core.events(id))

    def wait(self, id: str, *, wait_timeout: float | None = None, progress: Shown = None) -> Certification:  # noqa: A002
        """The certification at its end, however it ended. WaitTimeoutError leaves it as it is."""
        with showing(progress) as report:
            return self._driver.perform(self._core.wait(id, Deadline(wait_timeout), report))


class Ensembles:
    """`client.ensembles`."""

    def __init__(self, core: Core, driver: Driver) -> None:
        self._core, self._driver = core, driver

    def list(self) -> list[ServedEnsemble]:
        """All that are served."""
        return self._driver.perform(self._core.ensembles())

    def get(self, name: str) -> ServedEnsemble:
        """One of them."""
        return self._driver.perform(self._core.ensemble(name))


class Driver:
    """Performs steps."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def perform(self, steps: Steps[R]) -> R:
        """Their result."""
        play = Play(steps)
        for _ in self._tell(play, iter(())):
            pass
        return play.result

    def told(self, steps: Steps[None], source: Iterable[Any] = ()) -> Generator[Any, None, None]:
        """What they tell; nothing is done before somebody asks for the first."""
        yield from self._tell(Play(steps), iter(source))

    def _tell(self, play: Play[Any], source: Iterator[Any]) -> Generator[Any, None, None]:
        with Line(self.http, source) as line:
            while (step := play.step) is not None:
                try:
                    came = (yield step.what) if isinstance(step, Tell) else line.perform(step)
                except BaseException as error:  # also Ctrl-C, and the end of a caller's iteration
                    play.throw(error)
                else:
                    play.answer(came)


class Line:
    """One performance: at most one stream that is listened to, and what the caller iterates over."""

    def __init__(self, http: httpx.Client, source: Iterator[Any]) -> None:
        self._http, self._source = http, source
        self._response: httpx.Response | None = None
        self._chunks: Iterator[bytes] = iter(())

    def perform(self, step: Step) -> Any:
        """What came of the step."""
        match step:
            case Listen():
                return self._listen(step)
            case Send():
                return self._http.send(outgoing(self._http, step))
            case Hear():
                return next(self._chunks, b"")
            case HangUp():
                return self._hang_up()
            case Sleep():
                return time.sleep(step.seconds)
            case Pull():
                return next(self._source, EXHAUSTED)

    def _listen(self, step: Listen) -> httpx.Response:
        self._hang_up()
        self._response = self._http.send(outgoing(self._http, step), stream=True)
        if not self._response.is_success:
            self._response.read()
        self._chunks = self._response.iter_bytes()
        return self._response

    def _hang_up(self) -> None:
        if self._response is not None:
            self._response.close()
        self._response = None

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._hang_up()
