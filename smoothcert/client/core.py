"""Everything that a client can do, as steps.

    Client, AsyncClient      the public classes, which perform the steps
      Core                   submit, wait, certify, predict, ...; `many.py` for whole data sets
        Following            events, through cuts of the connection
        Operations           get, cancel, ensembles, verify, ...: what the service answers
          Exchange           a request and its response, through retries

Nothing below the first line has a socket, an event loop or a thread.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

from smoothcert.certificate import Certificate
from smoothcert.certification import ENDED, Certification
from smoothcert.client.bar import ProgressCallback, Shown
from smoothcert.client.deadline import Deadline
from smoothcert.client.errors import (
    AlreadyEndedError,
    AnswerError,
    CertificationFailedError,
    ClientError,
    ExpiredError,
    InvalidImageError,
    InvalidRequestError,
    NoAnswerError,
    ProcedureMismatchError,
    UnknownCertificationError,
    VersionError,
)
from smoothcert.client.exchange import NEVER, Exchange
from smoothcert.client.fields import Request, RequestFields, make_request, payload
from smoothcert.client.following import Following
from smoothcert.client.images import EncodedImage, naming_files
from smoothcert.client.operations import CERTIFICATIONS, JSON, Operations, path_of
from smoothcert.client.outcome import certificates, not_ended, sealed
from smoothcert.client.picture import picture
from smoothcert.client.retries import Retries
from smoothcert.client.steps import CloseStream, Emit, Send, Sleep, Steps
from smoothcert.errors import DomainError
from smoothcert.labels import class_number
from smoothcert.prediction import Prediction
from smoothcert.procedures import Exact, preferred
from smoothcert.published import PlanAnswer, ServedEnsemble, without_a_name
from smoothcert.request import CertificationRequest, PlanRequest

POLL_S = 2
"""The seconds for which a poll asks the service to wait for the end before it answers."""
UNASKED_POLL_S = 1.0
"""The seconds between two polls if the service has not waited."""
LAST_SECONDS = 12.0
"""The seconds before a deadline in which the client polls: events can be silent for ten seconds, and reading them
cannot be interrupted."""
PATIENCE = 2
"""The connections in a row without an event after which the client polls instead."""

Leaving = Literal["cancel", "leave"]


class Certifying(RequestFields, total=False):
    """The keywords of `certify`."""

    wait_timeout: float | None
    progress: Shown
    on_timeout: Leaving
    attest: bool


class Predicting(RequestFields, total=False):
    """The keywords of `predict`."""

    n: int
    wait_timeout: float | None


class Core(Operations):
    """What a client does with several operations: from the keywords of a call to its certificates."""

    def request(self, fields: RequestFields) -> Steps[CertificationRequest]:
        """The request that the fields make. Where labels are names of classes, the service is asked for the classes."""
        labels = fields.get("labels")
        if isinstance(labels, Iterable) and not isinstance(labels, str | bytes | Mapping):
            labels = [*labels]
            if any(isinstance(each, str) for each in labels):
                served = yield from self._chosen(fields.get("ensemble"))
                labels = [_class_number(each, served, place) for place, each in enumerate(labels)]
            fields = {**fields, "labels": labels}
        return make_request(fields, CertificationRequest)

    def settled(self, fields: RequestFields) -> Steps[CertificationRequest]:
        """The request that the fields make, with a procedure that goes with the noise of the ensemble."""
        request = make_request(fields, CertificationRequest)
        if {"procedure", "noise", "sigma"} & fields.keys():
            return request
        name = request.ensemble
        served = [(yield from self.ensemble(name))] if name else without_a_name((yield from self.ensembles()).data)
        if len(served) != 1:  # the service will refuse the request
            return request
        return request.model_copy(update={"procedure": preferred(request.radius, served[0].noise)})

    def ask(self, images: Sequence[EncodedImage], fields: RequestFields) -> Steps[Certification]:
        """Submit the images with the request that the fields make."""
        return (yield from self._accepted(images, fields, NEVER, leaving="cancel"))

    def _accepted(
        self, images: Sequence[EncodedImage], fields: RequestFields, deadline: Deadline, *, leaving: Leaving
    ) -> Steps[Certification]:
        request = yield from self.request(fields)
        try:
            return (yield from self.submit(images, request, deadline, leaving=leaving))
        except ProcedureMismatchError:
            if "procedure" in fields:
                raise
        # The procedure was our choice, made without knowing the noise of the ensemble. Asking for that before every
        # request would cost each of them an exchange.
        return (yield from self.submit(images, _exhaustive(request), deadline, leaving=leaving))

    def submit(
        self,
        images: Sequence[EncodedImage],
        request: CertificationRequest,
        deadline: Deadline = NEVER,
        *,
        leaving: Leaving = "cancel",
        key: str | None = None,
    ) -> Steps[Certification]:
        """Post the images under an idempotency key: however often they are sent, they are certified once.

        The key is a new one, unless images are sent again that may have been accepted before.

        An exception before the response, such as Ctrl-C, cancels the certification, or leaves it to go on.
        """
        content = json.dumps({**payload(request), "images": [image.sent for image in images]}).encode()
        headers = {**JSON, "Idempotency-Key": key or new_key()}
        send = Send("POST", CERTIFICATIONS, headers, content=content)
        try:
            return (yield from self.exchange.fetch(send, Certification, deadline))
        except InvalidImageError as error:
            error.detail = naming_files(error.detail, images)
            raise
        except NoAnswerError as error:
            if error.sent:
                yield from self._leave_unanswered(send, leaving, error)
            raise
        except ClientError:
            raise
        except BaseException as error:  # also Ctrl-C
            yield from self._leave_unanswered(send, leaving, error)
            raise

    def events(self, certification: str) -> Steps[None]:
        """Emits each Event, from the current status to `completed`."""
        path = path_of(CERTIFICATIONS, certification) + "/events"
        following = Following(self.exchange, path, patience=self.exchange.retries.most)
        while not following.ended:
            try:
                event = yield from following.next()
            except VersionError as error:
                raise (yield from self.exchange.version_error(Send("GET", path), error)) from error
            if event:
                yield Emit(event)

    def wait(self, certification: str, deadline: Deadline, report: ProgressCallback) -> Steps[Certification]:
        """The certification at its end, however it ended; WaitTimeoutError at the deadline."""
        following = Following(
            self.exchange, path_of(CERTIFICATIONS, certification) + "/events", patience=PATIENCE, deadline=deadline
        )
        try:
            while not following.ended and deadline.left > LAST_SECONDS:
                event = yield from following.next()
                if event and event.progress:
                    report(event.progress)
        except (NoAnswerError, AnswerError, VersionError) as error:
            if isinstance(error, UnknownCertificationError | ExpiredError):
                raise
            # a proxy on the way may not let streams through; polling finds out what is really wrong
        yield CloseStream()
        return (yield from self._poll(certification, deadline, report))

    def _poll(self, certification: str, deadline: Deadline, report: ProgressCallback) -> Steps[Certification]:
        while True:
            wait_s = int(min(POLL_S, deadline.left))
            half = Deadline(wait_s / 2)
            found = yield from self.get(certification, wait_s=wait_s, deadline=deadline)
            report(found.progress)
            if found.status in ENDED:
                return found
            if not deadline.left:
                raise not_ended(found, deadline)
            if half.left or not wait_s:  # the service has not waited
                yield Sleep(min(UNASKED_POLL_S, deadline.left))

    def certify(
        self,
        images: Sequence[EncodedImage],
        fields: RequestFields,
        *,
        wait_timeout: float | None,
        leaving: Leaving,
        report: ProgressCallback,
        attest: bool = False,
    ) -> Steps[tuple[Certificate, ...]]:
        """The certificates, in the order of the images, and with `attest` signed.

        An exception before the end, such as Ctrl-C, cancels the certification, or leaves it to go on.
        """
        require_known(leaving)
        deadline = Deadline(wait_timeout)
        certification = yield from self._accepted(images, fields, deadline, leaving=leaving)
        try:
            certification = yield from self.wait(certification.id, deadline, report)
        except BaseException as error:  # also Ctrl-C
            yield from self.leave([certification.id], leaving, error)
            raise
        found = certificates(certification)
        if attest:
            found = sealed(found, (yield from self.attestations(certification.id)))
        return tuple(each.beside(picture(image.sent)) for each, image in zip(found, images, strict=True))

    def predict(
        self, images: Sequence[EncodedImage], fields: RequestFields, *, n: int, wait_timeout: float | None
    ) -> Steps[tuple[Prediction, ...]]:
        """The classes of the smoothed classifier, in the order of the images."""
        if named := sorted({"procedure", "radius"} & fields.keys()):
            raise InvalidRequestError(f"a prediction has no {named[0]}: it finds the class at the image itself")
        fields = {**fields, "procedure": {"name": "predict", "n": n}}
        certifying = self.certify(images, fields, wait_timeout=wait_timeout, leaving="cancel", report=lambda _: None)
        return tuple(map(Prediction.of, (yield from certifying)))

    def leave(self, certifications: Sequence[str], leaving: Leaving, error: BaseException) -> Steps[None]:
        """Cancel the certifications, or let them go on; a note at the error says what became of each.

        If one of them has failed, which the error reports, others may have ended in the same way.
        """
        failure = error if isinstance(error, CertificationFailedError) else None
        for number, certification in enumerate(certifications):
            if failure and failure.certification and failure.certification.id == certification:
                continue
            try:
                if failure and (yield from self._has_ended(certification)):
                    error.add_note(f"the certification {certification} has ended meanwhile")
                else:
                    error.add_note((yield from self._left(certification, leaving)))
            except BaseException as impatience:  # Ctrl-C again
                for each in certifications[number:]:
                    impatience.add_note(f"the certification {each} may go on; `smoothcert watch {each}` follows it")
                raise

    def _has_ended(self, certification: str) -> Steps[bool]:
        try:
            return (yield from self._hasty.get(certification, deadline=Deadline(0))).status in ENDED
        except ClientError:
            return False

    def _left(self, certification: str, leaving: Leaving) -> Steps[str]:
        """A sentence about what became of the certification."""
        follow = f"`smoothcert watch {certification}` follows it"
        if leaving == "leave":
            return f"the certification {certification} goes on; {follow}"
        try:
            yield from self._hasty.cancel(certification)
        except AlreadyEndedError:
            return f"the certification {certification} has ended meanwhile"
        except ClientError as failure:
            return f"the certification {certification} could not be canceled and may go on; {follow} ({failure})"
        return f"the certification {certification} was canceled"

    def _leave_unanswered(self, send: Send, leaving: Leaving, error: BaseException) -> Steps[None]:
        """Leave a certification that may have been accepted: its request, sent again, gives its id."""
        unknown = "the certification may have been accepted, and then it goes on"
        try:
            accepted = yield from self._hasty.exchange.fetch(send, Certification, Deadline(0))
        except ClientError as failure:
            error.add_note(f"{unknown} ({failure})")
        except BaseException as impatience:  # Ctrl-C again
            impatience.add_note(unknown)
            raise
        else:
            yield from self.leave([accepted.id], leaving, error)

    @property
    def _hasty(self) -> Operations:
        """Operations that send every request once: a caller that leaves does not want to wait."""
        return Operations(Exchange(self.exchange.address, Retries(most=0)))

    def _chosen(self, name: str | None) -> Steps[ServedEnsemble]:
        """The ensemble that a request with this name gets, or a request without a name."""
        if name is not None:
            return (yield from self.ensemble(name))
        served = without_a_name((yield from self.ensembles()).data)
        if len(served) != 1:
            names = ", ".join(each.name for each in served) or "none"
            raise InvalidRequestError(f"labels: names of classes need an ensemble; the service offers {names}")
        return served[0]

    def plan(self, fields: RequestFields, image_count: int) -> Steps[PlanAnswer]:
        """What such a request could prove, and what it would cost."""
        request = make_request(fields, PlanRequest, image_count=image_count)
        try:
            return (yield from self.planned(request))
        except ProcedureMismatchError:
            if "procedure" in fields:
                raise
        return (yield from self.planned(_exhaustive(request)))


def new_key() -> str:
    """An idempotency key that nobody else uses."""
    return secrets.token_hex(16)


def require_known(leaving: Leaving) -> None:
    """Raise InvalidRequestError if it is not a value of `Leaving`."""
    if leaving not in get_args(Leaving):
        raise InvalidRequestError(f"on_timeout must be 'cancel' or 'leave', got {leaving!r}")


def _exhaustive(request: Request) -> Request:
    """The request with the procedure for a noise of few outcomes."""
    return request.model_copy(update={"procedure": Exact()})


def _class_number(label: object, served: ServedEnsemble, place: int) -> int:
    try:
        return class_number(label, served.classes)
    except DomainError as error:
        raise InvalidRequestError(f"labels.{place}: {error}") from None
