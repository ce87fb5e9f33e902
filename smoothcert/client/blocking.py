"""`Client`, which performs the steps with blocking sockets."""

from __future__ import annotations

import builtins
import time
from collections.abc import Generator, Iterable, Iterator
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


class Client:
    """A client of the service and a context manager. Threads may share it.

    `base_url` and `api_key` default to SMOOTHCERT_URL and SMOOTHCERT_API_KEY. `timeout` is the longest time, in
    seconds, for which a request waits for the service to send anything. `retries` is how often a request is sent again
    after connection errors, 408, 429 and 5xx; this never makes a certification twice. Without it, a request is sent up
    to six times, but only once where nothing has ever listened on this machine.
    """

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
        http = open_http(httpx2.Client, address, timeout)
        self._core, self._driver = Core(Exchange(address, Retries.of(retries))), Driver(http)
        self.certifications = Certifications(self._core, self._driver)
        self.ensembles = Ensembles(self._core, self._driver)

    def __repr__(self) -> str:
        return f"Client({self._core.exchange.address.url!r})"

    @overload
    def certify(self, images: File, **options: Unpack[Certifying]) -> Certificate: ...
    @overload
    def certify(self, images: Several, **options: Unpack[Certifying]) -> list[Certificate]: ...
    @overload
    def certify(self, images: Image | Iterable[Image], **options: Unpack[Certifying]) -> Any: ...
    def certify(
        self,
        images: Image | Iterable[Image],
        *,
        wait_timeout: float | None = None,
        progress: Shown = None,
        on_timeout: Leaving = "cancel",
        attest: bool = False,
        **fields: Unpack[RequestFields],
    ) -> Certificate | list[Certificate]:
        """Certify an image, or several: a Certificate for one, a list in their order for several.

        `images` is a path, the bytes of a file, a PIL image, an array of numpy or torch, or several of them. The
        question is put by the fields of `CertificationRequest`: ensemble, noise (a `Noise` or a mapping) or its
        shorthand sigma, radius, alpha, beta, procedure, ... An abstention is an ordinary certificate. A certification
        that ends without certificates raises the class of its code. After `wait_timeout` seconds, and on Ctrl-C, the
        certification is canceled, or with `on_timeout="leave"` it goes on. `progress` shows a bar: True, False, None
        for only on a terminal, or a function that is called with each Progress. With `attest`, the service signs the
        certificates: `certificate.attestation` is then an envelope for `smoothcert verify --key`.
        """
        with showing(progress) as report:
            steps = self._core.certify(
                encode_all(images),
                fields,
                wait_timeout=wait_timeout,
                leaving=on_timeout,
                report=report,
                attest=attest,
            )
            found = self._driver.perform(steps)
        return found[0] if is_single(images) else Certificates(found)

    @overload
    def predict(self, images: File, **options: Unpack[Predicting]) -> Prediction: ...
    @overload
    def predict(self, images: Several, **options: Unpack[Predicting]) -> list[Prediction]: ...
    @overload
    def predict(self, images: Image | Iterable[Image], **options: Unpack[Predicting]) -> Any: ...
    def predict(
        self,
        images: Image | Iterable[Image],
        *,
        n: int = N,
        wait_timeout: float | None = None,
        **fields: Unpack[RequestFields],
    ) -> Prediction | list[Prediction]:
        """The class of the smoothed classifier at an image, or at each of several, without a radius.

        Each class is wrong with probability at most alpha; it is None where `n` samples do not decide. The fields are
        those of `certify`, without radius and procedure.
        """
        steps = self._core.predict(encode_all(images), fields, n=n, wait_timeout=wait_timeout)
        found = self._driver.perform(steps)
        return found[0] if is_single(images) else [*found]

    def submit(self, images: Image | Iterable[Image], **fields: Unpack[RequestFields]) -> Certification:
        """Submit an image, or several, and do not wait for the certificates."""
        return self._driver.perform(self._core.ask(encode_all(images), fields))

    def certify_many(
        self,
        images: Iterable[Image],
        *,
        out: str | PathLike[str] | None = None,
        job_images: int = JOB_IMAGES,
        on_timeout: Leaving = "cancel",
        **fields: Unpack[RequestFields],
    ) -> Generator[Certificate, None, None]:
        """The certificates of a whole data set, in its order, as they finish; `index` is the place in the job.

        The iterable yields images, batches of them, or pairs (images, labels), whose labels are ignored. They are taken
        from it as they are needed, and sent in jobs of up to `job_images`. With the
        file `out`, a run that was interrupted goes on where it was; the certificates that it had finished come first.
        The jobs under way are then not canceled: they go on in the service, and the next run asks for them again.
        """
        path = None if out is None else Path(out)
        steps = certify_many(self._core, fields, out=path, job_images=job_images, leaving=on_timeout)
        return self._driver.iterate(steps, each(images))

    def plan(self, *, image_count: int = 1, **fields: Unpack[RequestFields]) -> PlanAnswer:
        """What such a request could prove and what it would cost, before any sample is drawn."""
        return self._driver.perform(self._core.plan(fields, image_count))

    def verify(self, certificate: Certificate | str | bytes) -> VerificationAnswer:
        """Whether all of a certificate, or of its JSON, follows from its counts, computed by the service.

        `smoothcert.verification.verify` computes the same in this process.
        """
        return self._driver.perform(self._core.verify(certificate))

    def close(self) -> None:
        self._driver.http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Certifications:
    """The certifications of the client's key: what `client.certifications` is."""

    def __init__(self, core: Core, driver: Driver) -> None:
        self._core, self._driver = core, driver

    def get(self, id: str) -> Certification:  # noqa: A002
        """The certification as it is now, with the certificates that are finished."""
        return self._driver.perform(self._core.get(id))

    def attestations(self, id: str) -> builtins.list[str]:  # noqa: A002
        """Its certificates, signed by the service; StillRunningError if it has not ended."""
        return self._driver.perform(self._core.attestations(id))

    def list(self, *, status: Status | None = None) -> Iterator[CertificationSummary]:
        """The certifications of this key, the newest first; pages are fetched as they are needed."""
        return self._driver.iterate(self._core.summaries(status))

    def cancel(self, id: str) -> Certification:  # noqa: A002
        """Cancel it; its status is `canceling` until the worker has stopped. AlreadyEndedError if it has ended."""
        return self._driver.perform(self._core.cancel(id))

    def delete(self, id: str) -> None:  # noqa: A002
        """Delete it and its certificates; StillRunningError if it has not ended."""
        self._driver.perform(self._core.delete(id))

    def events(self, id: str) -> Iterator[Event]:  # noqa: A002
        """The current status and every change until the end; reconnects by itself if the connection is cut."""
        return self._driver.iterate(self._core.events(id))

    def wait(self, id: str, *, wait_timeout: float | None = None, progress: Shown = None) -> Certification:  # noqa: A002
        """The certification at its end, however it ended; after a WaitTimeoutError it goes on."""
        with showing(progress) as report:
            return self._driver.perform(self._core.wait(id, Deadline(wait_timeout), report))


class Ensembles:
    """The ensembles that the service offers: what `client.ensembles` is."""

    def __init__(self, core: Core, driver: Driver) -> None:
        self._core, self._driver = core, driver

    def list(self) -> list[ServedEnsemble]:
        return [*self.overview().data]

    def overview(self) -> EnsembleList:
        """The ensembles that are served, and those that workers could not load, with the reason."""
        return self._driver.perform(self._core.ensembles())

    def get(self, name: str) -> ServedEnsemble:
        return self._driver.perform(self._core.ensemble(name))


class Driver:
    def __init__(self, http: httpx2.Client) -> None:
        self.http = http

    def perform(self, steps: Steps[R]) -> R:
        """The result of the steps."""
        running = StepRun(steps)
        for _ in self._iterate(running, iter(())):
            pass
        return running.result

    def iterate(self, steps: Steps[None], source: Iterable[Any] = ()) -> Generator[Any, None, None]:
        """The items that the steps emit; nothing is done before the first is requested."""
        yield from self._iterate(StepRun(steps), iter(source))

    def _iterate(self, running: StepRun[Any], source: Iterator[Any]) -> Generator[Any, None, None]:
        with Session(self.http, source) as session:
            while (step := running.step) is not None:
                try:
                    result = (yield step.item) if isinstance(step, Emit) else session.perform(step)
                except BaseException as error:  # also Ctrl-C, and the end of a caller's iteration
                    running.throw(error)
                else:
                    running.send(result)


class Session:
    """The state between steps: at most one open stream, and the iterable of the caller."""

    def __init__(self, http: httpx2.Client, source: Iterator[Any]) -> None:
        self._http, self._source = http, source
        self._response: httpx2.Response | None = None
        self._chunks: Iterator[bytes] = iter(())

    def perform(self, step: Step) -> Any:
        """The result of the step."""
        match step:
            case OpenStream():
                return self._open_stream(step)
            case Send():
                return self._http.send(make_outgoing(self._http, step))
            case ReadChunk():
                return next(self._chunks, b"")
            case CloseStream():
                return self._close_stream()
            case Sleep():
                return time.sleep(step.seconds)
            case Pull():
                return next(self._source, EXHAUSTED)

    def _open_stream(self, step: OpenStream) -> httpx2.Response:
        self._close_stream()
        self._response = self._http.send(make_outgoing(self._http, step), stream=True)
        if not self._response.is_success:
            self._response.read()
        self._chunks = self._response.iter_bytes()
        return self._response

    def _close_stream(self) -> None:
        if self._response is not None:
            self._response.close()
        self._response = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_stream()
