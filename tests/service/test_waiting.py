"""The waiting lists: owners in turn, their shares, places in the queue, and what earlier versions left there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from smoothcert.problem import Failure
from store import bookkeeping, checkpoints, keys, waiting
from store.checkpoints import SavedCheckpoint
from store.commands import unguarded
from store.record import Record
from store.scripts.taking import MOST_PASSED
from store.scripts.waiting import LONG_LIST
from store.transitions import admission, cancellation, lease, pieces
from store.transitions.admission import Limits
from store.waiting import ANONYMOUS, Looking
from tests.support.stored import MANY, POOL, QUEUE, accepted, begun, call, finishing, new, private_server, read


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with private_server() as connected:
        yield connected


@pytest.fixture
def empty(client: Any) -> Any:
    client.flushall()
    return client


def take(client: Any, most: int = 1, **other: Any) -> list[str]:
    """The ids that a worker may take."""
    return taking(client, most, **other)[1]


def taking(client: Any, most: int = 1, **other: Any) -> tuple[bool, list[str]]:
    """Whether something waits that must not be taken, and the ids that a worker may take."""
    fields: dict[str, Any] = {"most_bytes": 10**9, "busy": False, "share": 100, "held": {}, **other}
    return waiting.taken(client.eval(*waiting.take(POOL, most=most, **fields).arguments))


def urgent(client: Any, **other: Any) -> Record:
    record = new(**other)
    assert call(client, admission.accept(record, b"", MANY, idempotency=None, high=True))[0] == b"accepted"
    return record


def ids(records: Sequence[Record]) -> list[str]:
    return [record.id for record in records]


# --- a look begins what it takes


def begin(client: Any, **other: Any) -> tuple[str, list[str]]:
    """The execution that a look begins, and the ids that it takes."""
    made = lease.beginning(QUEUE, "w", now=5.0, ttl=100)
    return made.execution, take(client, 9, holds=["e"], begin=made.commands, **other)


def test_a_look_begins_what_the_worker_holds_as_a_call_of_its_own_does(empty: Any) -> None:
    """In one call, since each that writes takes a write to disk."""
    apart, together = accepted(empty, samples_saved=7), accepted(empty, samples_saved=7)
    one = begun(empty, apart)
    other, names = begin(empty)
    assert names == [together.id]
    assert empty.llen(bookkeeping.taken_key(QUEUE)) == 0
    found = read(empty, together)
    assert (found.status, found.execution, found.started_at, found.samples_at_start) == ("running", other, 5.0, 7)
    own = {"id", "execution", "created_at", "expires_at", "started_at"}
    first, second = (read(empty, each).mapping() for each in (apart, together))
    assert {name for name in first if first[name] != second[name]} <= own
    assert rq_keys(empty, apart, one) == rq_keys(empty, together, other)
    assert call(empty, finishing(found, other))[0] == 1
    assert rq_keys(empty, together, other) == {}


def rq_keys(client: Any, record: Record, execution: str) -> dict[str, Any]:
    """The kind and the fields of RQ's keys of a certification, by what their names have beside its own."""
    found = {}
    for key in client.scan_iter():
        if record.id.encode() in key and key.startswith(b"rq:"):
            kind, name = client.type(key), key.decode().replace(record.id, "ID").replace(execution, "EXECUTION")
            found[name] = kind, sorted(client.hkeys(key)) if kind == b"hash" else client.ttl(key) > 0
    return found


def test_a_certification_began_when_its_first_execution_did(empty: Any) -> None:
    record = accepted(empty)
    execution, _ = begin(empty)
    call(empty, lease.hand_back(read(empty, record), execution, samples=3, checkpoints={}))
    again = lease.beginning(QUEUE, "v", now=9.0, ttl=100)
    assert take(empty, holds=["e"], begin=again.commands) == [record.id]
    found = read(empty, record)
    assert (found.worker, found.started_at, found.samples_at_start) == ("v", 5.0, 3)


def test_what_the_worker_must_look_at_is_taken_and_not_begun(empty: Any) -> None:
    stray, foreign, moved = accepted(empty), accepted(empty, ensemble="another"), accepted(empty)
    empty.zrem(keys.waiting(POOL, "me"), stray.id)
    empty.hset(keys.record(moved.id), "queue", "elsewhere")
    canceled = accepted(empty)  # of which a shard waits
    empty.hset(keys.record(canceled.id), mapping={"status": "canceling", "status/b": "queued", "queue/b": QUEUE})
    call(empty, unguarded([waiting.leave(canceled)]))
    empty.zadd(keys.waiting(POOL, "me"), {f"{canceled.id}-b": time.time()})
    _, names = begin(empty)
    assert names == [*ids([stray, foreign, moved]), f"{canceled.id}-b"]
    assert empty.lrange(bookkeeping.taken_key(QUEUE), 0, -1) == [each.encode() for each in names]
    assert {read(empty, each).execution for each in (stray, foreign, moved)} == {""}
    assert empty.hget(keys.record(canceled.id), "status/b") == b"queued"


# --- turns


def test_owners_are_served_in_turn(empty: Any) -> None:
    flood = [accepted(empty, owner="alice") for _ in range(4)]
    bob, carol = accepted(empty, owner="bob"), accepted(empty, owner="carol")
    assert take(empty, 4) == ids([flood[0], bob, carol, flood[1]])
    late = accepted(empty, owner="bob")
    assert take(empty, 10) == ids([late, flood[2], flood[3]])
    assert take(empty, 10) == []
    assert (empty.zcard(keys.turns(POOL)), empty.llen(bookkeeping.waiting_key(QUEUE))) == (0, 0)


def test_what_has_priority_comes_first(empty: Any) -> None:
    first = accepted(empty, owner="alice")
    hurried = [urgent(empty, owner="bob") for _ in range(2)]
    assert take(empty, 3) == ids([*hurried, first])


def test_an_owner_has_its_share_of_a_worker_and_keeps_its_turn(empty: Any) -> None:
    flood = [accepted(empty, owner="alice") for _ in range(5)]
    bob = accepted(empty, owner="bob")
    assert taking(empty, 10, share=2, held={"alice": 1}) == (True, ids([flood[0], bob]))
    assert taking(empty, 10, share=2, held={"alice": 2, "bob": 1}) == (True, [])
    later = accepted(empty, owner="bob")
    assert take(empty, 10, share=2, held={"alice": 1}) == ids([flood[1], later])


def test_priority_gives_no_more_than_the_share_and_hides_nothing_behind_it(empty: Any) -> None:
    """Mutants killed: work with priority is taken without a look at the share, or does not count towards it; that of
    others is looked for only among the oldest.
    """
    flood = [urgent(empty, owner="alice") for _ in range(2 * MOST_PASSED)]
    usual = accepted(empty, owner="alice")
    bob, carol = urgent(empty, owner="bob"), accepted(empty, owner="carol")
    assert taking(empty, 10, share=2, held={"alice": 1}) == (True, ids([flood[0], bob, carol]))
    assert taking(empty, 10, share=2, held={"alice": 2, "bob": 1, "carol": 1}) == (True, [])
    late = urgent(empty, owner="bob")
    assert taking(empty, 10, share=2, held={"alice": 2, "bob": 1}) == (True, [late.id])
    assert take(empty, 100) == ids([*flood[1:], usual])


def test_owners_take_turns_with_what_has_priority_too(empty: Any) -> None:
    flood = [urgent(empty, owner="alice") for _ in range(3)]
    bob, carol = urgent(empty, owner="bob"), accepted(empty, owner="carol")
    assert take(empty, 2) == ids([flood[0], bob])
    assert take(empty, 5) == ids([*flood[1:], carol])
    assert (empty.zcard(keys.urgent_turns(POOL)), empty.zcard(keys.turns(POOL))) == (0, 0)


def test_a_service_without_keys_has_no_shares(empty: Any) -> None:
    records = [accepted(empty, owner=ANONYMOUS) for _ in range(3)]
    hurried = [urgent(empty, owner=ANONYMOUS) for _ in range(3)]
    assert taking(empty, 10, share=1) == (False, ids([*hurried, *records]))


def test_work_is_taken_by_bytes_as_well(empty: Any) -> None:
    large = new(owner="alice")
    call(empty, admission.accept(large, bytes(1000), MANY, idempotency=None, high=False))
    small = accepted(empty, owner="bob")
    assert taking(empty, 10, most_bytes=500, busy=True) == (True, [])
    assert taking(empty, 10, most_bytes=500) == (True, [large.id])  # alone, it may have any size
    assert take(empty, 10, most_bytes=500, busy=True) == [small.id]


def look(
    client: Any, worker: str, live: int = 0, *, most: int = 32, age: float = 0.0, **other: Any
) -> tuple[bool, int]:
    """Whether something is left for others, and how many a worker with `live` certifications under way takes."""
    now = time.time() - age
    blocked, found = taking(
        client, most, held={"me": live} if live else {}, among=Looking(worker, now, now + 2), **other
    )
    return blocked, len(found)


def called(client: Any) -> set[str]:
    prefix = keys.summons("")
    return {key.decode().removeprefix(prefix) for key in client.scan_iter(f"{prefix}*")}


def test_a_burst_is_spread_over_the_workers_that_look(empty: Any) -> None:
    """Mutant killed: one worker takes everything while another one, which was faster by a moment, has one."""
    assert look(empty, "v") == look(empty, "w") == (False, 0)
    accepted(empty)
    assert look(empty, "w") == (False, 1)
    for _ in range(15):
        accepted(empty)
    assert look(empty, "v") == (True, 8)
    assert called(empty) == {"w"}
    assert look(empty, "v", 8) == (True, 0), "the rest is for the other one"
    assert look(empty, "w", 1) == (False, 7)
    assert look(empty, "v", 8) == (False, 0)


def test_three_workers_share_what_waits_by_what_they_have(empty: Any) -> None:
    for worker, live in (("u", 5), ("v", 1), ("w", 0)):
        look(empty, worker, live)
    for _ in range(6):
        accepted(empty)
    assert look(empty, "u", 5) == (True, 0)
    assert called(empty) == {"w"}
    assert look(empty, "w") == (True, 4)
    assert look(empty, "v", 1) == (False, 2)


def test_a_worker_alone_takes_everything(empty: Any) -> None:
    for _ in range(5):
        accepted(empty)
    assert look(empty, "w", 3) == (False, 5)
    assert called(empty) == set()


def test_nothing_is_left_to_a_worker_that_is_gone_or_may_not_take_it(empty: Any) -> None:
    look(empty, "dead", age=3)
    look(empty, "left")
    for command in waiting.look_no_more(POOL, "left"):
        empty.execute_command(*command)
    look(empty, "v", 1)
    accepted(empty, size=100)
    assert look(empty, "v", 1, most_bytes=1, busy=True) == (True, 0), "too large beside what it has"
    assert look(empty, "w", 9) == (False, 1)


def test_a_full_worker_leaves_the_rest_without_calling_anybody(empty: Any) -> None:
    look(empty, "v", 20)
    for _ in range(9):
        accepted(empty)
    assert look(empty, "w", 1, most=2) == (False, 2)
    assert called(empty) == set()


def test_what_is_left_to_others_neither_hurries_a_worker_nor_hides_what_waits_behind(empty: Any) -> None:
    """Mutants killed: work that is passed over counts as blocked, so that the worker looks ten times a second; at most
    MOST_PASSED are passed over, so that a worker never sees the rest.
    """
    left = [accepted(empty, owner="alice") for _ in range(MOST_PASSED + 1)]
    behind = accepted(empty, owner="alice")
    assert taking(empty, 10, passed=ids(left)) == (False, [behind.id])
    assert taking(empty, 10, passed=ids(left)) == (False, [])
    assert taking(empty, 10, passed=ids(left[1:]), under_way=[left[0].id], busy=True) == (True, [])
    assert take(empty, 100) == ids(left)


def test_the_place_is_the_number_of_those_that_are_taken_before(empty: Any) -> None:
    """Mutant killed: counting only the owner's own certifications."""
    chance = Random(5)
    waits = [accepted(empty, owner=chance.choice("abc")) for _ in range(30)]
    waits += [urgent(empty, owner=chance.choice("abc")) for _ in range(12)]
    take(empty, 3)  # the turns are then not those of the beginning
    waits = [record for record in waits if place(empty, record) is not None]
    places = {record.id: place(empty, record) for record in waits}
    together = {
        record.id: found
        for owner in "abc"
        if (mine := [read(empty, record) for record in waits if record.owner == owner])
        for record, found in zip(mine, empty.eval(*waiting.places(mine).arguments), strict=True)
    }
    order = [take(empty)[0] for _ in waits]
    assert len(order) == 39
    assert places == together == {certification: index for index, certification in enumerate(order)}


def place(client: Any, record: Record) -> int | None:
    """The place of what waits; None for what was taken."""
    lanes = (keys.urgent(POOL, record.owner), keys.waiting(POOL, record.owner))
    if not any(client.zscore(lane, record.id) for lane in lanes):
        return None
    text, _ = client.eval(*waiting.read(record.id, owner=record.owner).arguments)
    return int(text[:-1].rpartition(b",")[2])


def test_a_record_is_read_by_its_owner_alone(empty: Any) -> None:
    record = accepted(empty, owner="alice")
    assert empty.eval(*waiting.read(record.id, owner="bob").arguments) == [b"", []]
    assert empty.eval(*waiting.read("cert_nothing", owner="bob").arguments) == [b"", []]
    assert record.id.encode() in empty.eval(*waiting.read(record.id, owner="alice").arguments)[0]


# --- strays


def test_what_an_earlier_version_left_waiting_is_taken_first(empty: Any) -> None:
    """Version 0.1 had only RQ's list, and its records know neither size nor budget."""
    old = new(owner="alice")
    fields = {name: value for name, value in old.mapping().items() if name not in ("size", "budget", "high")}
    empty.hset(keys.record(old.id), mapping=fields)
    for command in bookkeeping.enqueue(old.id, QUEUE, at_front=False):
        empty.execute_command(*command)
    later = accepted(empty, owner="alice")
    assert take(empty, 5) == ids([old, later])
    assert call(empty, finishing(read(empty, old), begun(empty, old)))[0] == 1
    assert read(empty, old).status == "succeeded"


def test_a_long_list_of_rq_keeps_what_was_canceled_until_it_comes_to_its_head(empty: Any) -> None:
    """Searching such a list would block the server for everybody."""
    listed = bookkeeping.waiting_key(QUEUE)
    flood = {f"cert_flood{number:06}": number for number in range(LONG_LIST + 1)}
    empty.zadd(keys.waiting(POOL, "alice"), flood)
    empty.zadd(keys.turns(POOL), {"alice": 1})
    empty.hset(keys.record("cert_flood000000"), "owner", "alice")
    empty.hset(keys.record("cert_flood000001"), "owner", "alice")
    empty.rpush(listed, *flood)
    bob, canceled = accepted(empty, owner="bob"), accepted(empty, owner="bob")
    call(empty, cancellation.cancel_waiting(read(empty, canceled), now=time.time(), ttl=60))
    assert take(empty, 2) == ["cert_flood000000", bob.id]
    assert empty.lrange(listed, -2, -1) == [bob.id.encode(), canceled.id.encode()]
    empty.delete(keys.waiting(POOL, "alice"))
    empty.ltrim(listed, -2, -1)
    assert take(empty, 5) == ids([bob, canceled])  # the worker drops both as strays
    execution, made = lease.begin(read(empty, canceled), "w", now=time.time(), ttl=60)
    assert (call(empty, made), bool(execution)) == ((0, "canceled"), True)


# --- limits


def test_an_owner_is_limited_in_samples_and_bytes_and_all_together_in_bytes(empty: Any) -> None:
    limits = Limits(waiting=10, active=10, samples=250, bytes=1000, owner_bytes=700)

    def accept(owner: str, size: int) -> tuple[Record, bytes]:
        record = new(owner=owner, budget=100)
        outcome = call(empty, admission.accept(record, bytes(size), limits, idempotency=None, high=False))
        return record, outcome[0]

    first, outcome = accept("alice", 300)
    assert outcome == b"accepted"
    assert accept("alice", 401)[1] == b"busy_bytes"
    assert accept("alice", 300)[1] == b"accepted"
    assert accept("alice", 1)[1] == b"busy_samples"
    assert accept("bob", 401)[1] == b"full_bytes"
    assert accept("bob", 400)[1] == b"accepted"
    call(empty, finishing(read(empty, first), begun(empty, first)))
    assert accept("alice", 300)[1] == b"accepted"


def test_what_expired_without_an_end_is_counted_no_longer(empty: Any) -> None:
    limits = Limits(waiting=10, active=10, bytes=100, owner_bytes=100)
    lost = new()
    call(empty, admission.accept(lost, bytes(100), limits, idempotency=None, high=False))
    empty.delete(keys.record(lost.id), keys.images(lost.id))
    empty.zadd(keys.active("me"), {lost.id: time.time() - 1})
    other = new()
    assert call(empty, admission.accept(other, bytes(100), limits, idempotency=None, high=False))[0] == b"accepted"
    assert int(empty.hget(keys.BYTES, "me")) == 100
    empty.zadd(keys.active("me"), {other.id: time.time() - 1})
    call(empty, admission.recount(time.time()))
    assert not empty.exists(keys.BYTES, keys.SAMPLES)


# --- pieces


def test_many_certificates_are_written_in_pieces(empty: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 25)
    record = accepted(empty, images=6)
    execution = begun(empty, record)
    texts = {index: f'"{index:08}"' for index in (3, 1, 5, 0, 2, 4)}
    made = finishing(read(empty, record), execution, certificates=texts)
    assert len(made.first) == 2
    for part in (*made.first, made):
        assert call(empty, part) == (1, "running")
    assert empty.hgetall(keys.certificates(record.id)) == {str(n).encode(): t.encode() for n, t in texts.items()}
    arrived = [int(each) for each in empty.zrange(keys.arrivals(record.id), 0, -1)]
    assert [set(arrived[at : at + 2]) for at in (0, 2, 4)] == [{3, 1}, {5, 0}, {2, 4}]
    assert (read(empty, record).status, read(empty, record).done) == ("succeeded", 6)


def test_a_draw_is_written_once_and_goes_with_its_image(empty: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What belongs to one image is never split over two calls: a worker that dies between them would leave half."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 10)
    monkeypatch.setattr(pieces, "PIECE_ENTRIES", 2)
    record = accepted(empty, images=2)
    execution = begun(empty, record)
    first = {place: SavedCheckpoint(f"r{place}", {n: f"{place}-{n}" for n in range(3)}) for place in (0, 1)}
    made = lease.save(read(empty, record), execution, checkpoints=first, samples=1)
    assert len(made.first) == 1
    for part in (*made.first, made):
        call(empty, part)
    second = {0: SavedCheckpoint("new", {3: "0-3"})}
    later = lease.save(read(empty, record), execution, checkpoints=second, samples=2)
    assert "0-2" not in str(later.arguments)
    call(empty, later)
    call(empty, later)  # a call that comes twice counts once
    found = checkpoints.read(empty.hgetall(keys.checkpoints(record.id)), empty.hgetall(keys.draws(record.id)))
    assert found[0] == SavedCheckpoint(b"new", {n: f"0-{n}".encode() for n in range(4)})
    assert found[1] == SavedCheckpoint(b"r1", {n: f"1-{n}".encode() for n in range(3)})
    call(empty, lease.save(read(empty, record), execution, certificates={0: "{}"}))
    assert sorted(empty.hkeys(keys.draws(record.id))) == [b"1/0", b"1/1", b"1/2"]
    assert empty.hkeys(keys.checkpoints(record.id)) == [b"1"]
    call(empty, finishing(read(empty, record), execution, certificates={1: "{}"}))
    assert not empty.exists(keys.checkpoints(record.id), keys.draws(record.id))


@pytest.mark.parametrize("what", ["certificates", "checkpoints", "end", "handed back"])
def test_a_text_that_is_too_large_fails_its_certification(
    empty: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(pieces, "MOST_BYTES", 100)
    record = accepted(empty)
    execution, huge = begun(empty, record), {1: "x" * 101}
    large = {1: SavedCheckpoint("x", {7: "x" * 100})}
    made = {
        "certificates": lambda: lease.save(read(empty, record), execution, certificates=huge),
        "checkpoints": lambda: lease.save(read(empty, record), execution, checkpoints=large, samples=1),
        "end": lambda: finishing(read(empty, record), execution, certificates=huge),
        "handed back": lambda: lease.hand_back(read(empty, record), execution, samples=1, checkpoints=large),
    }[what]()
    assert call(empty, made) == (1, "running")
    ended = read(empty, record)
    assert ended.status == "failed"
    assert Failure.model_validate_json(ended.error).code == "result_too_large"
    assert empty.hget(keys.STATISTICS, "certifications:failed") == b"1"
    assert not empty.exists(*(key(record.id) for key in (keys.images, keys.checkpoints, keys.draws)))
    assert not empty.exists(bookkeeping.started_key(QUEUE))
    assert empty.zcard(keys.executions(QUEUE)) == 0
