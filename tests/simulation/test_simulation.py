"""Some of the histories, those that once found a bug, and mutants of the service that a few histories must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from smoothcert.engine.run import Run
from store import waiting
from store.commands import Call, Command
from store.record import Record
from store.transitions import admission, endings, writing
from tests.simulation import simulator
from tests.simulation.history import STRANGER, Outcome
from tests.simulation.simulator import simulate, simulate_in_processes

SHARE = 16
"""The number of histories in the test suite; `make simulate` plays any number."""
FIRST, MOST = 53, 200
"""The histories among which a mutant must be found. From the first of these on, each mutant is found soon."""
FOUND = {
    "found-20": "a heartbeat came after the end and left keys of RQ behind",
    "found-63": "the same, while another worker had the certification",
    "7-35": "the audit itself missed certificates that had expired",
    "found-5": "a certification failed and was deleted, and RQ still listed the failure",
    "50-227": "a worker began what had been put back while it stood still, and it waited and ran at a time",
}
"""The histories that once found a bug."""


def played(seeds: Sequence[str]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    simulate(seeds, outcomes.append)
    return outcomes


def test_nothing_is_lost_or_wrong_in_a_share_of_the_histories() -> None:
    outcomes = played([f"test-{number}" for number in range(SHARE)])
    assert len(outcomes) == SHARE
    assert {each.seed: each.wrong for each in outcomes if each.wrong} == {}
    assert any("is killed" in str(what) for each in outcomes for _, _, what in each.notes)
    assert any("divides" in str(what) for each in outcomes for _, _, what in each.notes)


def test_histories_that_once_found_a_bug_find_none() -> None:
    assert {each.seed: each.wrong for each in played(list(FOUND)) if each.wrong} == {}


def test_a_seed_gives_the_same_history_whatever_else_is_played() -> None:
    alone, *_ = played(["test-1"])
    among = {each.seed: each for each in played([f"test-{number}" for number in range(4)])}["test-1"]
    assert [(at, who) for at, who, _ in among.notes] == [(at, who) for at, who, _ in alone.notes]


def test_a_worker_that_holds_another_ensemble_leaves_the_work_to_others_and_looks_about_once_a_second() -> None:
    """Everything that must be true of a history is true beside it; in particular, it makes nothing fail."""
    strange = [
        (outcome, steps)
        for outcome in played([f"strange-{number}" for number in range(16)])
        if (steps := [step for step in outcome.steps if f"  worker {STRANGER} " in step])
    ]
    assert {outcome.seed: outcome.wrong for outcome, _ in strange if outcome.wrong} == {}
    assert any("smoothcert.enter" in step for _, steps in strange for step in steps), "it put nothing back"
    looks = sum("<TAKE>" in step for _, steps in strange for step in steps)
    assert 0 < looks < 3 * sum(outcome.notes[-1][0] for outcome, _ in strange)


def test_several_processes_play_the_same_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "LOT", 2)
    seeds = [f"test-{number}" for number in range(3)]
    together: list[Outcome] = []
    simulate_in_processes(seeds, together.append, jobs=2)
    alone = played(seeds)
    assert {each.seed: each.commands for each in together} == {each.seed: each.commands for each in alone}


# --- mutants


def ignore_idempotency(patch: pytest.MonkeyPatch) -> None:
    """A repeated submission, whose first response was lost, is accepted a second time."""
    accept = admission.accept

    def mutant(*arguments: Any, idempotency: object, **other: Any) -> Call:
        return accept(*arguments, idempotency=None, **other)

    patch.setattr(admission, "accept", mutant)


def forget_to_requeue(patch: pytest.MonkeyPatch) -> None:
    """The work of a dead worker does not wait again."""
    patch.setattr(waiting, "put_back", lambda _: [])


def let_anybody_finish(patch: pytest.MonkeyPatch) -> None:
    """A worker that was taken for dead may write, although another has taken over."""
    guarded = writing.guarded

    def mutant(record: str, *, execution: str = "", **other: Any) -> Call:
        return guarded(record, **other)

    patch.setattr(writing, "guarded", mutant)


def repeat_samples(patch: pytest.MonkeyPatch) -> None:
    """A run that is resumed draws samples of the draw under way again."""
    put_back = Run._put_back

    def mutant(run: Run, counts: tuple[int, ...], *, complete: bool) -> None:
        put_back(run, counts, complete=complete)
        if not complete and run._counted > run._begun:
            run._dispatched = run._counted = run._counted - 1
            run._counts[0] = max(0, run._counts[0] - 1)

    patch.setattr(Run, "_put_back", mutant)


def keep_what_was_given(patch: pytest.MonkeyPatch) -> None:
    """A shard that gave images away still has them."""
    put = writing.put

    def mutant(record: Record, fields: dict[str, Any]) -> Command:
        return put(record, {name: each for name, each in fields.items() if name != "places" or "status" in fields})

    patch.setattr(writing, "put", mutant)


def end_with_the_first_shard(patch: pytest.MonkeyPatch) -> None:
    """The first shard that ends ends the certification."""
    patch.setattr(endings, "FINISH", endings.FINISH.replace("or 0) <= 1", "or 0) <= 9"))


def begin_and_keep(patch: pytest.MonkeyPatch) -> None:
    """What a worker has begun stays among the ids that were taken and not begun."""
    kept = "else redis.call('RPUSH', KEYS[2], id) end"
    assert kept in waiting.TAKE
    patch.setattr(waiting, "TAKE", waiting.TAKE.replace(kept, "end redis.call('RPUSH', KEYS[2], id)"))


MUTANTS = (
    ignore_idempotency,
    forget_to_requeue,
    let_anybody_finish,
    repeat_samples,
    keep_what_was_given,
    end_with_the_first_shard,
    begin_and_keep,
)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # customers end with their history
@pytest.mark.parametrize("mutate", MUTANTS)
def test_a_mutant_is_found(mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    wrong: list[Outcome] = []

    def seeds() -> Iterator[str]:
        for number in range(FIRST, MOST):
            if wrong:
                return
            yield f"mutant-{number}"

    simulate(seeds(), lambda outcome: wrong.append(outcome) if outcome.wrong else None, at_a_time=1)
    assert wrong, f"{MOST - FIRST} histories do not find that: {mutate.__doc__}"
