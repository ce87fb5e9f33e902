"""Which ensemble a request gets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.http.errors import ProblemError
from app.redis.roster import Roster
from smoothcert.cli.ensembles import choose_ensemble
from smoothcert.noise import Gaussian
from smoothcert.published import EnsembleCard
from store.presence import Offer


def offer(name: str) -> Offer:
    card = EnsembleCard(
        name=name,
        digest="0" * 64,
        members=("1" * 64,),
        classes=("a", "b"),
        input_shape=(1, 4, 4),
        noise=Gaussian(0.25),
        voting="soft",
        votings=("soft",),
        procedures=("fixed",),
    )
    return Offer(pool="default", card=card, seen_at=100.0)


def roster(*names: str, default: str = "") -> Roster:
    return Roster.of((), [offer(name) for name in names], now=101.0, default=default)


def test_a_request_without_a_name_gets_the_only_ensemble_or_the_default_one() -> None:
    assert roster("one", default="other").offer(None).card.name == "one"
    assert roster("one", "other", default="other").offer(None).card.name == "other"
    assert roster("one", "other", default="other").offer("one").card.name == "one"


@pytest.mark.parametrize("default", ["", "third"])
def test_without_a_default_that_is_served_one_of_several_must_be_named(default: str) -> None:
    with pytest.raises(ProblemError, match="must be given unless exactly one is served; there are: one, other"):
        roster("one", "other", default=default).offer(None)


def test_the_default_is_marked() -> None:
    known = roster("one", "other", default="other")
    assert [known.served(each).default for each in known.offers] == [False, True]


def test_the_command_line_chooses_as_the_service_does() -> None:
    known = roster("one", "other", default="other")
    client: Any = SimpleNamespace(ensembles=SimpleNamespace(list=lambda: [known.served(each) for each in known.offers]))
    assert choose_ensemble(client, None).name == known.offer(None).card.name == "other"
