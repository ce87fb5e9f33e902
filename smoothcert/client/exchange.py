"""One question to the service and its answer, through as many attempts as it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import httpx
from pydantic import ValidationError

from smoothcert import __version__
from smoothcert.client import answers
from smoothcert.client.address import Address
from smoothcert.client.answers import Model
from smoothcert.client.deadline import Deadline
from smoothcert.client.errors import AnswerError, ClientError, NoAnswerError, NotFoundError, VersionError
from smoothcert.client.retries import Retries
from smoothcert.client.steps import Send, Sleep, Steps
from smoothcert.published import Version

NEVER = Deadline(None)
GRACE_S = 5.0
"""That a request may take even at a deadline: without an answer nobody knows how things stand."""


@dataclass(frozen=True)
class Exchange:
    """Asks the service at an address; whatever it sends must be safe to be sent twice."""

    address: Address
    retries: Retries

    def answer(self, send: Send, deadline: Deadline = NEVER) -> Steps[httpx.Response]:
        """The answer, which is a success; ClientError by its code where the service says no or nothing."""
        attempt = 1
        while True:
            try:
                response: httpx.Response = yield replace(send, within_s=max(deadline.left, GRACE_S))
                if response.is_success:
                    return response
                failure = answers.problem(response)
            except httpx.RequestError as error:
                failure = self.no_answer(error)
            failure.attempts = attempt
            pause = self.retries.pause(failure, attempt)
            if pause is None or pause > deadline.left:
                raise failure
            yield Sleep(pause)
            attempt += 1

    def ask(self, send: Send, model: type[Model], deadline: Deadline = NEVER) -> Steps[Model]:
        """What the answer says; VersionError where the service is of a version that is not understood here."""
        try:
            response = yield from self.answer(send, deadline)
            return answers.read(model, response.content)
        except NotFoundError as error:
            if error.code not in (NotFoundError.codes[0], AnswerError.codes[0]):
                raise
            wrong: ClientError = error  # not even the path is known there
        except VersionError as error:
            wrong = error
        raise (yield from self.version_error(send, wrong)) from wrong

    def no_answer(self, error: httpx.RequestError) -> NoAnswerError:
        """Says what was tried, what happened, and what to do."""
        if isinstance(error, httpx.TimeoutException):
            happened, remedy = "it takes too long", "is it overloaded? timeout= allows for more"
        else:
            happened, remedy = str(error) or type(error).__name__, "is it running, and is SMOOTHCERT_URL right?"
        failure = NoAnswerError(f"no answer from {self.address.url} ({happened}); {remedy}")
        failure.sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        failure.__cause__ = error
        return failure

    def version_error(self, send: Send, wrong: ClientError) -> Steps[VersionError]:
        """What is not understood, who said it, and what to do; the service is asked for its version to say so."""
        place = f"{send.method} {self.address.url}{send.path}"
        try:
            response: httpx.Response = yield Send("GET", "/v1/version")
            version = Version.model_validate_json(response.content)
        except (httpx.RequestError, ValidationError):
            remedy = f"is that the address of a smoothcert service, of version {__version__}?"
        else:
            remedy = (
                f"smoothcert {version.smoothcert} with API {version.api} is served there, this is {__version__} with "
                f"API 1: pip install smoothcert=={version.smoothcert}"
            )
        detail = f"the answer to {place} is not understood ({wrong.detail}); {remedy}"
        return VersionError(detail, status=wrong.status, request_id=wrong.request_id)
