"""What customers do in a history. They are patient: a customer without an answer asks again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from smoothcert.certification import ENDED, Certification
from smoothcert.client.core import new_key
from smoothcert.client.deadline import Deadline
from smoothcert.client.errors import (
    AlreadyEndedError,
    ClientError,
    ExpiredError,
    NoAnswerError,
    ServerError,
    UnknownEnsembleError,
    WaitTimeoutError,
)
from smoothcert.client.fields import make_request
from smoothcert.client.images import encode_all
from smoothcert.client.steps import Steps
from smoothcert.request import CertificationRequest
from tests.simulation.customer import Customer
from tests.simulation.engine import SHAPE

LIGHT = (0.95, 0.9, 0.8, 0.6)
"""The values of the images; the first ones are certified soon, the last one takes long."""
PIXELS = tuple(np.full(SHAPE, value, np.float32) for value in LIGHT)
IMAGES = tuple(encode_all([pixels])[0] for pixels in PIXELS)
QUESTIONS = (
    {"procedure": {"name": "fixed", "n": 200}},
    {"procedure": {"name": "fixed", "n": 1500}},
    {"procedure": {"name": "adaptive", "stages": [100, 400]}, "radius": 0.1},
    {"procedure": {"name": "sequential", "max_samples": 400}, "radius": 0.1, "family_wise": True},
)
AWAY = (NoAnswerError, ServerError, UnknownEnsembleError)
"""What a client may say while the service, or the way to it, is disturbed, or no worker has announced itself yet."""
AGAIN_S = 1.0
R = TypeVar("R")


@dataclass
class Order:
    """A certification that a customer wants, and what it learns about it."""

    owner: str
    places: tuple[int, ...]
    """Which of the images."""
    request: CertificationRequest
    key: str
    ids: set[str] = field(default_factory=set)
    """The ids that the service has given for it; there must be one."""
    end: Certification | None = None
    """The certification at its end, as the customer saw it."""
    canceled: bool = False
    """Whether the customer has asked to cancel it."""
    deleted: bool = False
    wrong: list[str] = field(default_factory=list)
    """What the customer saw and should not have."""


def place(customer: Customer) -> Order:
    """Draw an order."""
    chance = customer.world.chance
    places = tuple(chance.randrange(len(IMAGES)) for _ in range(chance.choice((1, 1, 2, 3, 6))))
    fields = {**chance.choice(QUESTIONS), "sigma": 0.25, "ensemble": "looked-up"}
    if chance.random() < 0.15:
        fields["deadline_s"] = round(chance.uniform(1.0, 10.0), 3)
    return Order(customer.owner, places, make_request(fields, CertificationRequest), new_key())


def certify(customer: Customer, order: Order) -> None:
    """Submit and wait for the end."""
    submitted = submit(customer, order)
    if submitted is not None:
        order.end = await_end(customer, order, submitted.id)


def cancel(customer: Customer, order: Order) -> None:
    """Submit, change one's mind after a while, and see how it ends."""
    submitted = submit(customer, order)
    if submitted is None:
        return
    customer.world.sleep(customer.world.chance.expovariate(0.5))
    order.canceled = True
    with suppress(AlreadyEndedError):
        patiently(customer, lambda: customer.core.cancel(submitted.id))
    order.end = await_end(customer, order, submitted.id)


def delete(customer: Customer, order: Order) -> None:
    """Certify, delete, and submit again under the same key: that must not certify a second time."""
    certify(customer, order)
    if order.end is None:
        return
    order.deleted = True
    patiently(customer, lambda: customer.core.delete(next(iter(order.ids))))
    try:
        again = submit(customer, order)
    except ExpiredError:
        return
    order.wrong.append(f"was deleted and came back as {again and again.status}")


def submit(customer: Customer, order: Order) -> Certification | None:
    images = [IMAGES[each] for each in order.places]
    found = patiently(customer, lambda: customer.core.submit(images, order.request, key=order.key, leaving="leave"))
    order.ids.add(found.id)
    return found


def await_end(customer: Customer, order: Order, certification: str) -> Certification:
    while True:
        # With little time left the client polls, and otherwise it follows the events.
        deadline = Deadline(customer.world.chance.choice((10.0, 40.0)))
        try:
            found = patiently(customer, lambda: customer.core.wait(certification, deadline, lambda _: None))  # noqa: B023
        except WaitTimeoutError:
            continue
        if found.status in ENDED:
            return found
        order.wrong.append(f"a wait ended although it is {found.status}")


def patiently(customer: Customer, steps: Callable[[], Steps[R]]) -> R:
    while True:
        try:
            return customer.perform(steps())
        except WaitTimeoutError:
            raise
        except AWAY as error:
            if error.code == "internal":
                raise
            customer.world.note(customer.name, f"asks again: {type(error).__name__}")
            customer.world.sleep(AGAIN_S)


def acting(order_of: Callable[[Customer], Order], act: Callable[[Customer, Order], None]) -> Callable[[Customer], None]:
    """The whole script: an error that a customer must not see is noted in its order."""

    def script(customer: Customer) -> None:
        order = order_of(customer)
        try:
            act(customer, order)
        except ClientError as error:
            order.wrong.append(f"saw {type(error).__name__}: {error}")

    return script
