"""All that a client can do, as steps.

    Client, AsyncClient      what people call; perform the steps
      Core                   submit, get, cancel, ..., certify; `many.py` for whole data sets
        Following            events, through cuts of the connection
          Exchange           a request and its answer, through retries

No socket, no event loop and no thread is below the first line.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from smoothcert.certificate import Certificate
from smoothcert.certification import ENDED, Certification, CertificationPage, Status
from smoothcert.client.bar import Report, Shown
from smoothcert.client.deadline import Deadline
from smoothcert.client.errors import (
    AlreadyEndedError,
    AnswerError,
    ClientError,
    ExpiredError,
    InvalidImageError,
    InvalidRequestError,
    NoAnswerError,
    UnknownCertificationError,
    VersionError,
)
from smoothcert.client.exchange import NEVER, Exchange
from smoothcert.client.following import Following
from smoothcert.client.images import EncodedImage, naming_files
from smoothcert.client.outcome import certificates, not_ended
from smoothcert.client.picture import picture
from smoothcert.client.question import RequestFields, ask, told
from smoothcert.client.retries import Retries
from smoothcert.client.steps import HangUp, Send, Sleep, Steps, Tell
from smoothcert.published import EnsembleList, PlanAnswer, ServedEnsemble, VerificationAnswer
from smoothcert.request import CertificationRequest, PlanRequest

CERTIFICATIONS, ENSEMBLES, PLAN, VERIFY = "/v1/certifications", "/v1/ensembles", "/v1/plan", "/v1/verify"
JSON = {"Content-Type": "application/json"}
PAGE = 100
POLL_S = 2
"""That the service is asked to wait for the end before it answers,"""
UNASKED_POLL_S = 1.0
"""and that is waited here where it did not."""
LAST_SECONDS = 12.0
"""Before a deadline it is polled: events can be silent for ten seconds, and nobody is woken from reading them."""
PATIENCE = 2
"""Connections without an event, one after the other, after which events are given up and it is polled."""

Leaving = Literal["cancel", "leave"]


class Certifying(RequestFields, total=False):
    """The keywords of `certify`."""

    wait_timeout: float | None
    progress: Shown
    on_timeout: Leaving


@dataclass(frozen=True)
class Core:
    """What a client can do."""

    exchange: Exchange

    # --- certifications

    def submit(
        self,
        images: Sequence[EncodedImage],
        request: CertificationRequest,
        deadline: Deadline = NEVER,
        *,
        leaving: Leaving = "cancel",
    ) -> Steps[Certification]:
        """Post it, under a key of its own: however often it is sent, it is certified once.

        Whoever leaves before the answer has come cancels it, or leaves it.
        """
        content = json.dumps({**told(request), "images": [image.sent for image in images]}).encode()
        headers = {**JSON, "Idempotency-Key": secrets.token_hex(16)}
        send = Send("POST", CERTIFICATIONS, headers, content=content)
        try:
            return (yield from self.exchange.ask(send, Certification, deadline))
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

    def get(self, certification: str, *, wait_s: int = 0, deadline: Deadline = NEVER) -> Steps[Certification]:
        """As it is now, or at its end if that comes within the wait."""
        headers = {"Prefer": f"wait={wait_s}"} if wait_s else {}
        send = Send("GET", _path(CERTIFICATIONS, certification), headers, wait_s=wait_s)
        return (yield from self.exchange.ask(send, Certification, deadline))

    def summaries(self, status: Status | None) -> Steps[None]:
        """Tells a CertificationSummary of each, the newest first."""
        params = {"limit": str(PAGE)} | ({"status": status} if status else {})
        while True:
            page = yield from self.exchange.ask(Send("GET", CERTIFICATIONS, params=params), CertificationPage)
            for summary in page.data:
                yield Tell(summary)
            if page.next_cursor is None:
                return
            params |= {"cursor": page.next_cursor}

    def cancel(self, certification: str) -> Steps[Certification]:
        """AlreadyEndedError where it has ended otherwise; one that is canceled already is as it should be."""
        send = Send("POST", _path(CERTIFICATIONS, certification) + "/cancel")
        try:
            return (yield from self.exchange.ask(send, Certification))
        except AlreadyEndedError:
            found = yield from self.get(certification)
            if found.status != "canceled":
                raise
            return found

    def delete(self, certification: str) -> Steps[None]:
        """Forget it; StillRunningError where it has not ended."""
        try:
            yield from self.exchange.answer(Send("DELETE", _path(CERTIFICATIONS, certification)))
        except UnknownCertificationError as error:
            if error.attempts == 1:  # else the first attempt did it, and its answer was lost
                raise

    def events(self, certification: str) -> Steps[None]:
        """Tells each Event, from what it is now to `completed`."""
        path = _path(CERTIFICATIONS, certification) + "/events"
        following = Following(self.exchange, path, patience=self.exchange.retries.most)
        while not following.ended:
            try:
                event = yield from following.next()
            except VersionError as error:
                raise (yield from self.exchange.version_error(Send("GET", path), error)) from error
            if event:
                yield Tell(event)

    def wait(self, certification: str, deadline: Deadline, report: Report) -> Steps[Certification]:
        """The certification at its end, however it ended; WaitTimeoutError at the deadline."""
        following = Following(
            self.exchange, _path(CERTIFICATIONS, certification) + "/events", patience=PATIENCE, deadline=deadline
        )
        try:
            while not following.ended and deadline.left > LAST_SECONDS:
                event = yield from following.next()
                if event and event.progress:
                    report(event.progress)
        except (NoAnswerError, AnswerError, VersionError) as error:
            if isinstance(error, UnknownCertificationError | ExpiredError):
                raise
            # anything between here and there may not let streams through: polling tells what really is
        yield HangUp()
        return (yield from self._poll(certification, deadline, report))

    def _poll(self, certification: str, deadline: Deadline, report: Report) -> Steps[Certification]:
        while True:
            wait_s = int(min(POLL_S, deadline.left))
            half = Deadline(wait_s / 2)
            found = yield from self.get(certification, wait_s=wait_s, deadline=deadline)
            report(found.progress)
            if found.status in ENDED:
                return found
            if not deadline.left:
                raise not_ended(found, deadline)
            if half.left or not wait_s:  # nobody has waited
                yield Sleep(min(UNASKED_POLL_S, deadline.left))

    def certify(
        self,
        images: Sequence[EncodedImage],
        question: RequestFields,
        *,
        wait_timeout: float | None,
        leaving: Leaving,
        report: Report,
    ) -> Steps[tuple[Certificate, ...]]:
        """The certificates, in the order of the images; whoever leaves before the end cancels it, or leaves it."""
        require_known(leaving)
        deadline = Deadline(wait_timeout)
        certification = yield from self.submit(images, ask(question, CertificationRequest), deadline, leaving=leaving)
        try:
            certification = yield from self.wait(certification.id, deadline, report)
        except BaseException as error:  # also Ctrl-C
            yield from self.leave([certification.id], leaving, error)
            raise
        found = certificates(certification)
        return tuple(each.beside(picture(image.sent)) for each, image in zip(found, images, strict=True))

    def leave(self, certifications: Sequence[str], leaving: Leaving, error: BaseException) -> Steps[None]:
        """Cancel those certifications, or not; notes at the error what became of them."""
        for number, certification in enumerate(certifications):
            try:
                error.add_note((yield from self._left(certification, leaving)))
            except BaseException as impatience:  # Ctrl-C again
                for each in certifications[number:]:
                    impatience.add_note(f"the certification {each} may go on; `smoothcert watch {each}` follows it")
                raise

    def _left(self, certification: str, leaving: Leaving) -> Steps[str]:
        """What became of it, in words."""
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
        """Leave what may have been accepted: sent again under its key, it is the same and says its id."""
        unknown = "the certification may have been accepted, and then it goes on"
        try:
            accepted = yield from self._hasty.exchange.ask(send, Certification, Deadline(0))
        except ClientError as failure:
            error.add_note(f"{unknown} ({failure})")
        except BaseException as impatience:  # Ctrl-C again
            impatience.add_note(unknown)
            raise
        else:
            yield from self.leave([accepted.id], leaving, error)

    @property
    def _hasty(self) -> Core:
        """Sends everything once: whoever leaves does not want to wait."""
        return Core(Exchange(self.exchange.address, Retries(most=0)))

    # --- the others

    def ensembles(self) -> Steps[list[ServedEnsemble]]:
        """All that are served."""
        served = yield from self.exchange.ask(Send("GET", ENSEMBLES), EnsembleList)
        return [*served.data]

    def ensemble(self, name: str) -> Steps[ServedEnsemble]:
        """One of them."""
        return (yield from self.exchange.ask(Send("GET", _path(ENSEMBLES, name)), ServedEnsemble))

    def plan(self, question: RequestFields, image_count: int) -> Steps[PlanAnswer]:
        """What the question could prove, and what it would cost."""
        content = json.dumps(told(ask(question, PlanRequest, image_count=image_count))).encode()
        return (yield from self.exchange.ask(Send("POST", PLAN, JSON, content=content), PlanAnswer))

    def verify(self, certificate: Certificate | str | bytes) -> Steps[VerificationAnswer]:
        """Whether all of it follows from its counts, as the service sees it."""
        text = certificate.to_json() if isinstance(certificate, Certificate) else certificate
        content = text.encode() if isinstance(text, str) else text
        return (yield from self.exchange.ask(Send("POST", VERIFY, JSON, content=content), VerificationAnswer))


def require_known(leaving: Leaving) -> None:
    """InvalidRequestError where it is not one of those."""
    if leaving not in get_args(Leaving):
        raise InvalidRequestError(f"on_timeout must be 'cancel' or 'leave', got {leaving!r}")


def _path(folder: str, name: str) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise InvalidRequestError(f"{name!r} is no name of anything in {folder}")
    return f"{folder}/{name}"
