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
from store.presence import Offer, Presence, Speed


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


def worker(*names: str, pool: str = "default", **speeds: float) -> Presence:
    return Presence(
        name=f"worker of {names}",
        pool=pool,
        device="cpu",
        ensembles=tuple(offer(name).card for name in names),
        live=0,
        fill=0.0,
        speeds={name: Speed(evaluations_per_second=rate, rows=4) for name, rate in speeds.items()},
        beat_at=100.0,
    )


def test_an_offer_that_the_workers_of_its_pool_no_longer_hold_is_forgotten() -> None:
    """After a start with another zoo: the new worker would take a request for the old ensemble, and fail."""
    offers = [offer("old"), offer("new")]
    known = Roster.of([worker("new")], offers, now=101.0, default="old")
    assert [each.card.name for each in known.offers] == ["new"]
    assert known.offer(None).card.name == "new"
    with pytest.raises(ProblemError, match="there is no ensemble 'old'; there are: new"):
        known.offer("old")


def test_while_no_worker_of_a_pool_lives_its_offers_are_kept() -> None:
    offers = [offer("old"), offer("new")]
    known = Roster.of([worker("other", pool="another")], offers, now=101.0)
    assert [(each.card.name, known.served(each).ready) for each in known.offers] == [("new", False), ("old", False)]


def test_each_ensemble_has_a_speed_of_its_own() -> None:
    offers = [offer("slow"), offer("fast")]
    workers = [worker("slow", "fast", slow=10.0, fast=1000.0), worker("slow", slow=30.0)]
    known = Roster.of(workers, offers, now=101.0)
    assert [known.served(each).evaluations_per_second for each in known.offers] == [1000.0, 20.0]
    assert known.speed(offer("unknown")) is None
