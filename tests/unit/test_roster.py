"""The ensemble that a request gets."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from app.http.errors import ProblemError
from app.redis.listener import LOOK_SECONDS
from app.redis.roster import Roster
from smoothcert.certification import Stall, Status
from smoothcert.cli.ensembles import choose_ensemble
from smoothcert.noise import Gaussian
from smoothcert.published import EnsembleCard
from store.presence import Offer, Presence, Speed
from store.record import Record
from workers.settings import WorkerSettings


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


def worker(*names: str, pool: str = "default", failed: str = "", **speeds: float) -> Presence:
    return Presence(
        name=f"worker of {names}",
        failed={failed: "no file"} if failed else {},
        pool=pool,
        device="cpu",
        ensembles=tuple(offer(name).card for name in names),
        live=0,
        fill=0.0,
        speeds={name: Speed(evaluations_per_second=rate, rows=4) for name, rate in speeds.items()},
        beat_at=100.0,
    )


def test_an_offer_that_the_workers_of_its_pool_no_longer_hold_is_forgotten() -> None:
    """After a start with another zoo, the new worker would put a request for the old ensemble back."""
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


def test_what_workers_could_not_load_is_listed_with_the_reason() -> None:
    workers = [worker("good").model_copy(update={"failed": {"bad": reason}}) for reason in ("no file", "no memory")]
    known = Roster.of(workers, [offer("good")], now=101.0)
    assert [(each.name, each.reason, each.workers) for each in known.failed] == [("bad", "no file", 2)]
    assert [each.card.name for each in known.offers] == ["good"]


def test_a_request_for_what_could_not_be_loaded_is_told_why() -> None:
    known = Roster.of([worker("good", failed="bad")], [offer("good")], now=101.0)
    with pytest.raises(ProblemError, match="ensemble_not_loaded: the ensemble bad cannot be loaded: no file"):
        known.offer("bad")
    with pytest.raises(ProblemError, match="there are: none at the moment; bad cannot be loaded: no file"):
        Roster.of([worker(failed="bad")], [], now=101.0).offer(None)
    elsewhere = Roster.of([worker("bad"), worker(failed="bad", pool="another")], [offer("bad")], now=101.0)
    assert elsewhere.offer("bad").card.name == "bad"


def record(status: Status, holder: str = "") -> Record:
    return Record(
        id="cert_1",
        owner="me",
        status=status,
        pool="default",
        queue="smoothcert-default",
        ensemble="one",
        digest="0" * 64,
        request="{}",
        images=1,
        seed="5eed",
        created_at=90.0,
        expires_at=1000.0,
        worker=holder,
    )


def test_a_worker_as_shipped_is_told_within_five_seconds_of_its_last_heartbeat_and_not_while_it_beats() -> None:
    shipped = WorkerSettings().heartbeat_s
    own = worker("one").model_copy(update={"dead_at": 112.0, "heartbeat_s": shipped})
    others = [worker("one", "other"), worker("other")]
    known, held = Roster.of([own, *others], [], now=101.0), record("running", own.name)
    assert known.stall(held, now=own.beat_at + 1.25 * shipped) is None
    stall = known.stall(held, now=own.beat_at + 5 - LOOK_SECONDS)
    assert stall is not None
    assert (stall.since, stall.until, stall.workers) == (moment(100), moment(112), 1), (
        "the last worker does not hold it"
    )


def test_a_worker_that_beats_less_often_is_not_told_at_every_heartbeat() -> None:
    own = worker("one").model_copy(update={"heartbeat_s": 10.0})
    known, held = Roster.of([own], [], now=101.0), record("running", own.name)
    assert known.stall(held, now=own.beat_at + 11) is None
    assert known.stall(held, now=own.beat_at + 16) is not None


@pytest.mark.parametrize("failed", ["one", ""])
def test_workers_that_do_not_hold_its_ensemble_do_not_count(failed: str) -> None:
    waits = record("queued")
    without = worker("other", failed=failed)
    assert Roster.of([without, worker("one")], [], now=101.0).stall(waits, now=101.0) is None
    assert Roster.of([without], [], now=101.0).stall(waits, now=101.0) == Stall(since=None, until=None, workers=0)


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_each_ensemble_has_a_speed_of_its_own() -> None:
    offers = [offer("slow"), offer("fast")]
    workers = [worker("slow", "fast", slow=10.0, fast=1000.0), worker("slow", slow=30.0)]
    known = Roster.of(workers, offers, now=101.0)
    assert [known.served(each).evaluations_per_second for each in known.offers] == [1000.0, 20.0]
    assert known.speed(offer("unknown")) is None
