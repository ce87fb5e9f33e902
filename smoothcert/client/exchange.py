"""One request to the service and its response, through as many attempts as it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import httpx2
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
"""The seconds that a request may take even at a deadline: without a response the state of things is unknown."""


@dataclass
class Exchange:
    """Sends requests to an address. Every request must be safe to be sent twice."""

    address: Address
    retries: Retries
    reached: bool = False
    """Whether the service has answered before."""

    def response(self, send: Send, deadline: Deadline = NEVER) -> Steps[httpx2.Response]:
        """The response, which is a success; ClientError by its code if the service refuses or does not answer."""
        attempt = 1
        while True:
            try:
                response: httpx2.Response = yield replace(send, within_s=max(deadline.left, GRACE_S))
                self.reached = True
                if response.is_success:
                    return response
                failure = answers.problem(response)
            except httpx2.RequestError as error:
                failure = self.no_answer(error)
            failure.attempts = attempt
            pause = self.retries.pause(failure, attempt)
            if pause is None or pause > deadline.left:
                raise failure
            yield Sleep(pause)
            attempt += 1

    def fetch(self, send: Send, model: type[Model], deadline: Deadline = NEVER) -> Steps[Model]:
        """The response as a model; VersionError if the service has a version that is not understood here."""
        try:
            response = yield from self.response(send, deadline)
            return answers.read(model, response.content)
        except NotFoundError as error:
            if error.code not in (NotFoundError.codes[0], AnswerError.codes[0]):
                raise
            wrong: ClientError = error  # the service does not even know the path
        except VersionError as error:
            wrong = error
        raise (yield from self.version_error(send, wrong)) from wrong

    def no_answer(self, error: httpx2.RequestError) -> NoAnswerError:
        """The error that names the address, the reason and the remedy."""
        if isinstance(error, httpx2.TimeoutException):
            reason, remedy = "it takes too long", "is it overloaded? timeout= allows for more"
        else:
            reason, remedy = str(error) or type(error).__name__, "is it running, and is SMOOTHCERT_URL right?"
        failure = NoAnswerError(f"no answer from {self.address.url} ({reason}); {remedy}")
        failure.sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
        # A service that has answered before may be restarting. Elsewhere than on this machine, a proxy may refuse.
        failure.hopeless = self.address.loopback and not (self.reached or self.retries.insistent) and _refused(error)
        failure.__cause__ = error
        return failure

    def version_error(self, send: Send, wrong: ClientError) -> Steps[VersionError]:
        """The error that names the response, the version of the service, which is requested for it, and the remedy."""
        place = f"{send.method} {self.address.url}{send.path}"
        try:
            response: httpx2.Response = yield Send("GET", "/v1/version")
            version = Version.model_validate_json(response.content)
        except (httpx2.RequestError, ValidationError):
            remedy = f"is that the address of a smoothcert service, of version {__version__}?"
        else:
            remedy = (
                f"smoothcert {version.smoothcert} with API {version.api} is served there, this is {__version__} with "
                f"API 1: install {version.smoothcert} here"
            )
        detail = f"the answer to {place} is not understood ({wrong.detail}); {remedy}"
        return VersionError(detail, status=wrong.status, request_id=wrong.request_id)


def _refused(error: BaseException) -> bool:
    """Whether the operating system said that nothing listens at the port."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
