"""A certification under way in a worker: its progress, its checkpoints and its end."""

from __future__ import annotations

import gc
import io
import json
import math
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from redis.exceptions import ConnectionError as DisconnectedError

from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.counts import SampleCounts
from smoothcert.engine.checkpoint import Checkpoint
from smoothcert.engine.engine import Engine
from smoothcert.engine.errors import CheckpointError, ClosedError
from smoothcert.engine.sampling import NoisyImage
from smoothcert.procedures import Optimal
from smoothcert.question import Question
from store import keys
from store.checkpoints import SavedCheckpoint
from store.commands import Call
from store.record import Record
from store.transitions import lease
from tests.support.engines import NOISE, SHAPE, ensemble, images, until
from workers.clerk import Clerk
from workers.connection import RedisConnection
from workers.errors import HoldingsError
from workers.holdings import Holdings
from workers.jobs import Stored, certify
from workers.progress import image_progress
from workers.settings import WorkerSettings
from workers.work import Work

HELD = ensemble(k=3)
SEVERAL = {"name": "adaptive", "stages": [32, 64, 4_000_000]}


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(HELD) as running:
        yield running


def stored(n: int = 1, *, request: dict[str, Any] | None = None) -> Stored:
    file = io.BytesIO()
    np.save(file, np.stack([image.numpy() for image in images(n)]))
    fields = {"ensemble": "patches", "sigma": NOISE.sigma, "radius": 0.1, "procedure": "sequential", **(request or {})}
    now = time.time()
    record = Record(
        id=f"cert_{secrets.token_hex(8)}",
        owner="me",
        status="queued",
        pool="p",
        queue="q",
        ensemble="patches",
        digest=HELD.digest,
        request=json.dumps(fields),
        images=n,
        seed="seed",
        created_at=now - 5,
        expires_at=now,
    )
    return Stored(record, file.getvalue(), {}, {})


def begin(engine: Engine, given: Stored) -> tuple[Work, list[int]]:
    ended: list[int] = []
    work = Work(replace(given.record, started_at=time.time()), "x")
    certify(
        work, given, engine=engine, holdings=Holdings({"patches": HELD}), ended=lambda _, index: ended.append(index)
    )
    return work, ended


def finish(work: Work, ended: list[int]) -> None:
    until(lambda: len(ended) == len(work.live))
    for index in ended:
        work.absorb(index)


def test_all_images_end_in_certificates_and_sums(engine: Engine) -> None:
    work, ended = begin(engine, stored(3))
    finish(work, ended)
    assert work.ended
    assert work.status == "succeeded"
    assert sorted(work.unsaved) == [0, 1, 2]
    certificates = [json.loads(text) for text in work.unsaved.values()]
    progress = work.progress()
    assert (progress.images_done, progress.images_total) == (3, 3)
    assert progress.samples == sum(each["samples"] for each in certificates) == work.samples
    tally = {**work.tally(), **work.end_tally(time.time())}
    assert tally["certifications:succeeded"] == 1
    assert tally["certificates:certified"] + tally["certificates:abstain"] == 3
    assert tally["evaluations"] == sum(each["evaluations"] for each in certificates)
    assert 4 < tally["wait:sum"] < tally["duration:sum"] + 1


def test_progress_follows_from_the_draws(engine: Engine) -> None:
    work, _ = begin(engine, stored(1, request={"procedure": SEVERAL, "radius": 0.0, "alpha": 1e-18, "beta": 1e-18}))
    under_way = work.live[0]
    until(lambda: under_way.handle.progress.draws >= 3)
    seen = image_progress(under_way)
    checkpoint = under_way.handle.checkpoint
    work.cancel()
    assert checkpoint is not None
    assert seen.stage == 3
    assert seen.class_index == max(checkpoint.draws[0], key=lambda each: (checkpoint.draws[0][each], -each))
    assert [look.n for look in seen.looks] == [32, 64]  # every stage has fresh samples
    assert [look.count for look in seen.looks] == [draw[seen.class_index] for draw in checkpoint.draws[1:]]
    level = 1e-18 / len(SEVERAL["stages"])
    for look in seen.looks:
        assert look.p_interval == (lower_bound(look.count, look.n, level), upper_bound(look.count, look.n, level))
    count, n = seen.count - sum(look.count for look in seen.looks), seen.n - 32 - 64
    expected = (lower_bound(count, n, level), upper_bound(count, n, level)) if n else None
    assert seen.p_interval == expected, "of the stage alone"
    assert seen.samples >= seen.n + 100


def test_samples_that_are_kept_add_up_in_the_looks(engine: Engine) -> None:
    question = {"procedure": {**SEVERAL, "keep_samples": True}, "radius": 0.0, "alpha": 1e-18, "beta": 1e-18}
    work, _ = begin(engine, stored(1, request=question))
    until(lambda: work.live[0].handle.progress.draws >= 3)
    seen = image_progress(work.live[0])
    assert [look.n for look in seen.looks] == [32, 96]
    level = 1e-18 / len(SEVERAL["stages"])
    assert seen.p_interval == (lower_bound(seen.count, seen.n, level), upper_bound(seen.count, seen.n, level))
    work.cancel()


def counted(*classes: int) -> SampleCounts:
    """The counts of the first classes; every sample has a class."""
    return SampleCounts.of((*classes, 0))


def test_without_a_selection_the_class_is_the_one_that_leads_now() -> None:
    checkpoint = Checkpoint("x", (counted(20, 12), counted(2, 30)), counted(1, 4), 69, (), ())
    question = Question(NOISE, Optimal(), 0.1)
    case = SimpleNamespace(index=3, question=question, handle=SimpleNamespace(checkpoint=checkpoint))
    seen = image_progress(case)  # type: ignore[arg-type]
    assert (seen.stage, seen.class_index, seen.samples, seen.n, seen.count) == (3, 1, 69, 69, 46)
    case.handle = SimpleNamespace(checkpoint=None)
    assert image_progress(case).stage == 1, "nothing chooses the class first"  # type: ignore[arg-type]
    assert [(look.n, look.count) for look in seen.looks] == [(32, 12), (64, 42)]


def test_before_the_class_is_chosen_there_is_no_class(engine: Engine) -> None:
    work, _ = begin(engine, stored(1, request={"procedure": {"name": "sequential", "n0": 10**9}}))
    seen = image_progress(work.live[0])
    assert (seen.stage, seen.class_index, seen.p_interval, seen.looks) == (0, None, None, ())
    work.cancel()


def test_what_was_finished_before_is_not_done_again(engine: Engine) -> None:
    given = stored(3)
    work, ended = begin(engine, given)
    finish(work, ended)
    texts = {index: text.encode() for index, text in work.unsaved.items()}
    again, ended = begin(engine, Stored(given.record, given.images, {}, {0: texts[0], 2: texts[2]}))
    assert list(again.live) == [1]
    finish(again, ended)
    assert list(again.unsaved) == [1]
    assert again.samples == work.samples
    whole, _ = begin(engine, Stored(given.record, given.images, {}, texts))
    assert whole.ended
    assert whole.status == "succeeded"


def test_images_of_bytes_are_held_once_and_as_bytes(engine: Engine) -> None:
    """A thousand images of 224 x 224 pixels take 150 MB this way; as floats, with what noise is added to, 1.6 GB."""
    given = stored(50, request={"procedure": {"name": "fixed", "n": 10**8}, "radius": None})
    bytes_ = np.random.default_rng(0).integers(0, 256, (50, *SHAPE), np.uint8)
    file = io.BytesIO()
    np.save(file, bytes_)
    before = {id(each) for each in gc.get_objects() if type(each) is NoisyImage}
    work, _ = begin(engine, replace(given, images=file.getvalue()))
    assert work.failure is None
    until(lambda: work.samples > 0)
    held = [each for each in gc.get_objects() if type(each) is NoisyImage and id(each) not in before]
    assert len(held) == 50
    tensors = [value for each in held for value in vars(each).values() if isinstance(value, torch.Tensor)]
    storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}
    assert sum(storages.values()) == bytes_.nbytes
    work.cancel()


def test_a_checkpoint_survives_its_way_through_json(engine: Engine) -> None:
    given = stored(1, request={"procedure": SEVERAL, "radius": 0.0, "alpha": 1e-18, "beta": 1e-18})
    work, _ = begin(engine, given)
    until(lambda: work.live[0].handle.progress.draws >= 2)
    (saved,) = work.checkpoints().values()
    work.cancel()
    checkpoint = Checkpoint.from_json(saved.rest, saved.draws)
    assert checkpoint.rest_json() == saved.rest
    assert {number: checkpoint.draw_json(number) for number in range(len(checkpoint.draws))} == saved.draws
    resumed, _ = begin(engine, Stored(given.record, given.images, {0: saved}, {}))
    assert resumed.live[0].handle.progress.samples >= checkpoint.samples > 0
    resumed.cancel()
    for junk in ("", "[]", "{}", '{"of": 1, "draws": 3}'):
        with pytest.raises(CheckpointError, match="not a checkpoint"):
            Checkpoint.from_json(junk, saved.draws)
    for draws in ({}, {1: saved.draws[1]}, {**saved.draws, 1: '{"0": -1}'}, {**saved.draws, 1: "[1, 2]"[:-1]}):
        with pytest.raises(CheckpointError, match="not a checkpoint"):
            Checkpoint.from_json(saved.rest, draws)


def test_a_checkpoint_sends_the_draws_that_are_new_and_no_others(engine: Engine) -> None:
    undecided = {"name": "adaptive", "stages": [2, 3, 4_000_000]}  # the fourth draw takes as long as the test
    given = stored(1, request={"procedure": undecided, "radius": 0.0, "alpha": 1e-18, "beta": 1e-18})
    work, _ = begin(engine, given)
    until(lambda: work.live[0].handle.progress.draws == 3)
    first = work.checkpoints()[0]
    assert [*first.draws] == [0, 1, 2]
    until(lambda: work.live[0].handle.progress.samples > Checkpoint.from_json(first.rest, first.draws).samples)
    second = work.checkpoints()[0]
    assert second.draws == {}
    # Whatever Redis may not have received is sent again, from the first draw on.
    work.report_again()
    assert work.checkpoints()[0].draws == first.draws
    work.cancel()
    # Another execution knows which draws Redis has.
    there = Checkpoint.from_json(second.rest, first.draws)
    resumed, _ = begin(engine, replace(given, checkpoints={0: SavedCheckpoint(second.rest, first.draws)}))
    until(lambda: resumed.live[0].handle.progress.samples > there.samples)
    assert resumed.checkpoints()[0].draws == {}
    resumed.cancel()


@pytest.mark.parametrize(
    ("change", "code", "detail"),
    [
        ({"digest": "0" * 64}, "ensemble_changed", "0" * 64),
        ({"request": '{"ensemble": "patches"}'}, "internal", "noise"),
        ({"request": '{"ensemble": "other", "sigma": 0.25}'}, "ensemble_changed", "other"),
        ({"request": "nonsense"}, "internal", "ValidationError"),
        ({"seed": ""}, "internal", "seed"),
    ],
)
def test_what_cannot_be_begun_fails_and_says_why(engine: Engine, change: Any, code: str, detail: str) -> None:
    given = stored(2)
    work, _ = begin(engine, replace(given, record=replace(given.record, **change)))
    assert work.ended
    assert work.failure is not None
    assert work.failure.code == code
    assert detail in work.failure.detail
    assert work.status == "failed"


def test_images_that_are_gone_are_a_failure(engine: Engine) -> None:
    given = stored(2)
    work, _ = begin(engine, replace(given, images=None))
    assert work.failure is not None
    assert work.failure.code == "input_lost"
    other, _ = begin(engine, replace(given, images=b"junk"))
    assert other.failure is not None


def test_a_checkpoint_that_is_damaged_or_of_another_certification_is_passed_over(engine: Engine) -> None:
    given = stored(1)
    work, ended = begin(engine, given)
    another = Checkpoint("another", (), SampleCounts(), 0, (), ()).rest_json()
    for junk in (another.encode(), b"junk"):
        again, ended_again = begin(engine, replace(given, checkpoints={0: SavedCheckpoint(junk)}))
        finish(again, ended_again)
        assert again.status == "succeeded"
    finish(work, ended)
    assert json.loads(again.unsaved[0])["stages"] == json.loads(work.unsaved[0])["stages"]


def test_what_comes_too_late_is_not_begun(engine: Engine) -> None:
    given = stored(1)
    work, _ = begin(engine, replace(given, record=replace(given.record, deadline_at=time.time() - 1)))
    assert work.failure is not None
    assert work.failure.code == "deadline_exceeded"


def test_a_work_that_is_being_prepared_is_kept_as_it_was() -> None:
    work = Work(replace(stored(1).record, samples_saved=77), "x")
    assert not work.ended
    assert work.samples == 77
    assert work.checkpoints() == {}


def test_cancel_while_it_is_being_prepared_ends_it(engine: Engine) -> None:
    given, ended = stored(1, request={"procedure": {"name": "fixed", "n": 10**8}, "radius": None}), []
    work = Work(given.record, "x")
    work.cancel()
    certify(
        work, given, engine=engine, holdings=Holdings({"patches": HELD}), ended=lambda _, index: ended.append(index)
    )
    finish(work, ended)
    assert work.status == "canceled"


def test_a_wrong_image_among_good_ones_leaves_nothing_running(engine: Engine) -> None:
    file = io.BytesIO()
    np.save(file, np.stack([np.full(SHAPE, value, np.float32) for value in (0.5, 7.0)]))
    work, ended = begin(engine, replace(stored(2), images=file.getvalue()))
    finish(work, ended)
    assert work.ended
    assert work.status == "failed"
    assert "[0, 1]" in (work.failure.detail if work.failure else "")


def test_cancel_keeps_what_was_finished(engine: Engine) -> None:
    work, ended = begin(engine, stored(2, request={"procedure": {"name": "fixed", "n": 10**8}, "radius": None}))
    work.cancel()
    finish(work, ended)
    assert work.status == "canceled"
    assert work.finished == {}


def test_a_worker_without_ensembles_does_not_start() -> None:
    with pytest.raises(HoldingsError, match="at least one"):
        Holdings({})


def test_an_engine_that_is_gone_is_no_certifications_fault() -> None:
    engine = Engine(HELD)
    work, _ = begin(engine, stored(1, request={"procedure": {"name": "fixed", "n": 10**8}, "radius": None}))
    engine.close()
    with pytest.raises(ClosedError):
        work.absorb(0)
    assert work.failure is None
    with pytest.raises(ClosedError):
        begin(engine, stored(1))


def test_a_work_that_only_waits_to_be_written_down_wants_nothing_of_the_engine(engine: Engine) -> None:
    work, ended = begin(engine, stored(2))
    until(lambda: len(ended) == 2)
    assert not work.ended
    assert not work.wants_samples
    long, _ = begin(engine, stored(1, request={"procedure": {"name": "fixed", "n": 10**8}, "radius": None}))
    assert long.wants_samples
    long.cancel()


def test_what_redis_did_not_hear_is_told_again(engine: Engine) -> None:
    class Deaf(RedisConnection):
        """A connection that fails once and then answers."""

        def __init__(self) -> None:
            self.received: list[Call] = []
            self.away = True

        def call(self, calls: Sequence[Call]) -> list[tuple[bool, str]]:
            if self.away:
                self.away = False
                raise DisconnectedError
            self.received += calls
            return [(True, "running") for _ in calls]

    work, _ = begin(engine, stored(request={"procedure": SEVERAL}))
    until(lambda: work.samples > 0)
    work.saved_at = -math.inf
    connection = Deaf()
    clerk = Clerk(connection, WorkerSettings(checkpoint_s=1000, progress_s=0.01))
    clerk.take(work)
    until(lambda: clerk._report() or connection.received)
    assert keys.checkpoints(work.record.id) in str(connection.received[0].arguments)
    work.cancel()


@pytest.mark.parametrize("end", ["hand_back", "save"])
def test_checkpoints_do_not_stay_for_ever(end: str) -> None:
    record = stored().record
    call = getattr(lease, end)(record, "x", samples=1, checkpoints={0: SavedCheckpoint("{}", {0: "{}"})})
    sent = str(call.arguments).replace(" ", "").replace("'", '"')
    assert all(f'"EXPIRE","{key(record.id)}"' in sent for key in (keys.checkpoints, keys.draws))
