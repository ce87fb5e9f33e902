"""What must be true of a history: of each order, of Redis at the end, and of what is left there much later."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from smoothcert.request import CertificationRequest
from store import bookkeeping, keys
from store.record import Record
from store.scripts.shards import DIVIDE
from store.scripts.taking import TAKE
from store.shards import parse_name, read_places
from tests.simulation.engine import SHAPE, undisturbed
from tests.simulation.scripts import PIXELS, Order
from tests.simulation.server import Arguments
from tests.simulation.worker import POOL, SETTINGS, connection
from tests.simulation.world import EPOCH, Process
from workers.janitor import LOOK_AGAIN_S, Janitor

if TYPE_CHECKING:
    from tests.simulation.history import History

QUEUE, QUARANTINE = bookkeeping.queue_name(POOL), bookkeeping.quarantine_name(POOL)
FAILURES = [f"rq:failed:{name}" for name in (QUEUE, QUARANTINE)]
"""The sets in which RQ's tools look for failures."""
MOST_PASSED = 2
"""The number of certifications of other owners that may be taken while one that may be taken waits."""
CLOCKS_S = 2.0
"""The most seconds by which an expiry may be off: clocks differ, and time passes in whole seconds."""

PLACES = """#!lua flags=no-writes
-- ARGV: names of keys, as JSON. Returns [name, status, number of places where it waits or was taken, number of
-- executions, whether the record's own is among them] of each shard that has not ended, [id, images, number of shards
-- that have not ended, number that is noted, images of each shard] of each certification that was divided, and how many
-- entries the lists and sets of all places have together.
local names, found, divided, entries = cjson.decode(ARGV[1]), {}, {}, 0
local function copies(list, id)
  local n = 0
  for _, each in ipairs(redis.call('LRANGE', list, 0, -1)) do if each == id then n = n + 1 end end
  return n
end
local function waits(id, owner)
  local n = redis.call('ZSCORE', names.lanes .. owner, id) and 1 or 0
  n = n + copies(names.suspects, id)
  for _, taken in ipairs(names.taken) do n = n + copies(taken, id) end
  return n
end
local function executions(id)
  local n = 0
  for _, queue in ipairs(names.queues) do
    for _, entry in ipairs(redis.call('ZRANGE', names.executions .. queue, 0, -1)) do
      if string.sub(entry, 1, #id + 1) == id .. ':' then n = n + 1 end
    end
  end
  return n
end
for _, key in ipairs(redis.call('KEYS', names.records .. '*')) do
  local shards, open, images = redis.call('HGET', key, 'shards'), 0, {}
  local certification, final = unpack(redis.call('HMGET', key, 'id', 'status'))
  local over = final == 'succeeded' or final == 'failed' or final == 'canceled'
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local shard = string.match(field, '^status/?(.*)$')
    local range = redis.call('HGET', key, (string.gsub(field, '^%l+', 'range', 1)))
    range = range and range ~= ''
    if string.find(field, '^places') and not range then images[#images + 1] = redis.call('HGET', key, field) end
    if shard and not over then
      local suffix, id = '', certification
      if shard ~= '' then suffix, id = '/' .. shard, id .. '-' .. shard end
      local fields = redis.call('HMGET', key, 'owner', field, 'queue' .. suffix, 'execution' .. suffix)
      local owner, status, queue, execution = unpack(fields)
      if status == 'queued' or shards == '0' or execution ~= '' then
        local own = redis.call('ZSCORE', names.executions .. queue, id .. ':' .. execution) and 1 or 0
        found[#found + 1] = {id, status, waits(id, owner), executions(id), own}
        if not range then open = open + 1 end
      end
    end
  end
  if shards ~= '0' and not over then
    divided[#divided + 1] = {certification, redis.call('HGET', key, 'images'), open, shards, images}
  end
end
for _, list in ipairs(names.lists) do entries = entries + redis.call('LLEN', list) end
for _, set in ipairs(names.sets) do entries = entries + redis.call('ZCARD', set) end
for _, lane in ipairs(redis.call('KEYS', names.lanes .. '*')) do entries = entries + redis.call('ZCARD', lane) end
return cjson.encode({found, divided, entries})
"""
MENTIONS = """#!lua flags=no-writes
-- ARGV: ids, as JSON. Returns [key, id] of each key that has an id in its name or, in a list or set, among its entries.
local ids, found = cjson.decode(ARGV[1]), {}
local entries = {zset = {'ZRANGE', 0, -1}, list = {'LRANGE', 0, -1}, set = {'SMEMBERS'}}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local text, read = key, entries[redis.call('TYPE', key).ok]
  if read then text = text .. ' ' .. table.concat(redis.call(read[1], key, unpack(read, 2)), ' ') end
  for _, id in ipairs(ids) do
    if string.find(text, id, 1, true) then found[#found + 1] = {key, id} end
  end
end
return cjson.encode(found)
"""
NAMES = json.dumps(
    {
        "records": keys.record(""),
        "lanes": keys.waiting(POOL, ""),
        "quarantine": QUARANTINE,
        "suspects": bookkeeping.waiting_key(QUARANTINE),
        "taken": [bookkeeping.taken_key(QUEUE), bookkeeping.taken_key(QUARANTINE)],
        "executions": keys.executions(""),
        "queues": [QUEUE, QUARANTINE],
        "lists": [
            key(each) for key in (bookkeeping.waiting_key, bookkeeping.taken_key) for each in (QUEUE, QUARANTINE)
        ],
        "sets": [key(each) for key in (keys.executions, bookkeeping.started_key) for each in (QUEUE, QUARANTINE)],
    }
)


class Audit:
    """Checks a history while it lasts and at its end."""

    def __init__(self, history: History) -> None:
        self._history, self._database = history, history.database
        self.seen: list[str] = []
        """What was wrong while it lasted."""
        self.settled = False
        """Whether nothing waits and nothing is under way."""
        self._passed: Counter[str] = Counter()
        history.network.watchers.append(self._watch)

    # --- while it lasts

    def look(self) -> None:
        """Check that each shard is in one place, and each image belongs to one of them, at any time."""
        places, divided, entries = json.loads(self._ask(("EVAL", PLACES, 0, NAMES)))
        self.settled = not places and not divided and not entries
        for name, status, *numbers in places:
            waits, executions, own = numbers
            if numbers != ([1, 0, 0] if status == "queued" else [0, 1, 1]):
                which = f"{executions} executions, {own} of them its own"
                self._see(f"{name} is {status}, waits in {waits} places and has {which}")
        for certification, images, number, noted, shards in divided:
            belonging = sorted(place for text in shards for place in read_places(text, int(images)))
            if belonging != list(range(int(images))):
                self._see(f"the shards of {certification} have the images {belonging}")
            if number != int(noted):
                self._see(f"{number} shards of {certification} have not ended, {noted} are noted")

    def _see(self, what: str) -> None:
        if what not in self.seen:
            self._history.world.note("audit", what)
            self.seen.append(what)

    def _watch(self, process: Process, command: Arguments, reply: Any) -> None:
        """Check that no owner is passed over: of work that may be taken, the owner served longest ago comes first."""
        if command[0] == "EVAL" and command[1] == DIVIDE and reply[0]:
            self._history.world.note(process.name, "divides a certification")
        if command[0] != "EVAL" or command[1] != TAKE or not reply[1]:
            return
        fields = json.loads(command[-1])
        held = Counter(fields["held"])
        ids = [parse_name(each.decode())[0] for each in reply[1]]
        owners = [self._ask(("HGET", keys.record(each), "owner")) for each in ids]
        taken = Counter(each.decode() for each in owners if each)
        for name in self._ask(("KEYS", keys.waiting(POOL, "*"))):
            owner = name.decode().rpartition(":")[2]
            if owner not in taken and held[owner] < fields["share"]:
                self._passed[owner] += sum(taken.values())
                if self._passed[owner] > MOST_PASSED:
                    self._see(f"{owner} waits while {self._passed[owner]} certifications of others are taken")
        for owner in taken:
            self._passed[owner] = 0

    # --- at the end

    def stuck(self) -> list[str]:
        """Report that the history has not ended in time."""
        self.look()
        places = json.loads(self._ask(("EVAL", PLACES, 0, NAMES)))
        return [f"not ended after {self._history.world.now:.0f} s: {places}", *self.final()]

    def final(self) -> list[str]:
        """Check all orders, the counters, and what must be empty."""
        records = {record.id: record for record in self._records()}
        wrong = [f"{order.ids or order.key}: {each}" for order in self._history.orders for each in order.wrong]
        for order in self._history.orders:
            wrong += [f"{sorted(order.ids)}: {each}" for each in self._order(order, records)]
        made, ordered = set(records), {each for order in self._history.orders for each in order.ids}
        if strangers := made - ordered:
            wrong.append(f"nobody knows {sorted(strangers)}")
        wrong += self._counted(records)
        for owner in ("alice", "bob"):
            if active := self._ask(("ZRANGE", keys.active(owner), 0, -1)):
                wrong.append(f"{owner} has {active} under way")
        for key in (keys.BYTES, keys.SAMPLES):
            if held := {owner: value for owner, value in self._ask(("HGETALL", key)).items() if int(value)}:
                wrong.append(f"{key} counts {held}")
        return wrong

    def _order(self, order: Order, records: dict[str, Record]) -> list[str]:
        if len(order.ids) > 1:
            return ["several certifications for one key"]
        if not order.ids or order.wrong:
            return [] if order.wrong else ["a customer has no answer"]
        if order.end is None:
            return ["a customer does not know how it ended"]
        record = records.get(next(iter(order.ids)))
        if record is None:
            return [] if order.deleted else ["is gone"]
        if order.deleted:
            return ["was deleted and is still there"]
        if record.status != order.end.status:
            return [f"was {order.end.status} for the customer and is {record.status}"]
        return self._status(order, record) + self._certificates(order, record)

    def _status(self, order: Order, record: Record) -> list[str]:
        code = json.loads(record.error)["code"] if record.error else None
        late = order.request.deadline_s is not None
        # By design, a certification fails if two workers died with it in a row. They cannot be told from workers that
        # were stopped or whose heartbeats were held back.
        deadly = self._history.deaths >= 2 or self._history.weather.late or self._history.weather.slow
        allowed = {
            ("succeeded", None): True,
            ("canceled", None): order.canceled,
            ("failed", "deadline_exceeded"): late,
            ("failed", "worker_died"): bool(deadly),
        }
        return [] if allowed.get((record.status, code)) else [f"is {record.status} {record.error}"]

    def _certificates(self, order: Order, record: Record) -> list[str]:
        texts = self._ask(("HGETALL", keys.certificates(record.id)))
        arrived = self._ask(("ZCARD", keys.arrivals(record.id)))
        if not texts and not arrived and EPOCH + self._history.world.now > record.expires_at - CLOCKS_S:
            return []  # in a long history, the record outlives its certificates and says that they have expired
        if not len(texts) == arrived == record.done:
            return [f"{record.done} done, {arrived} arrived, {len(texts)} certificates"]
        if record.status == "succeeded" and record.done != record.images:
            return [f"{record.done} certificates for {record.images} images"]
        wrong = []
        nonce = CertificationRequest.model_validate_json(record.request).nonce
        for place, text in texts.items():
            found = json.loads(text)
            sampling = found["provenance"]["sampling"]
            if (sampling["seed"], sampling["nonce"]) != (record.seed, nonce):
                wrong.append(f"image {int(place)} was drawn from another seed")
            request, image = _without(record.request, "nonce", "deadline_s"), order.places[int(place)]
            expected = _expected(request, image, int(place), len(order.places))
            if bare(found) != expected:
                wrong.append(f"image {int(place)} has {json.dumps(bare(found))}, undisturbed {json.dumps(expected)}")
        return wrong

    def _counted(self, records: dict[str, Record]) -> list[str]:
        """Check that every end was counted once; ends of deleted certifications are known from the customers."""
        ends = Counter(record.status for record in records.values())
        ends += Counter(order.end.status for order in self._history.orders if order.deleted and order.end)
        counters = self._ask(("HGETALL", keys.STATISTICS))
        counted = {name: int(float(counters.get(f"certifications:{name}".encode(), 0))) for name in ends}
        return [] if counted == dict(ends) else [f"ends {dict(ends)}, counted {counted}"]

    # --- much later

    def remains(self) -> list[str]:
        """Check that nothing is left of expired records but what RQ's tools show of failures for a day."""
        names = [record.id for record in self._records()]
        names += [each for order in self._history.orders for each in order.ids]
        failed = {record.id for record in self._records() if record.status == "failed"}
        world = self._history.world
        janitor = Process(world, "janitor")
        for _ in range(2):
            world.skip(2 * SETTINGS.result_ttl + LOOK_AGAIN_S + 10)
            self._database.pass_time(world.now)
            self._sweep(janitor)
        left = []
        for key, name in json.loads(self._ask(("EVAL", MENTIONS, 0, json.dumps(sorted(set(names)))))):
            shown = name in failed and key in (f"rq:job:{name}", f"rq:results:{name}", *FAILURES)
            if not shown:
                left.append(f"{key} is left of {name}")
        return left

    def _sweep(self, process: Process) -> None:
        world, done = self._history.world, []

        def sweep() -> None:
            janitor = Janitor(connection(self._history.network, process), SETTINGS, "last")
            janitor._in_touch_since = world.now - 2 * SETTINGS.dead_after_s
            janitor.sweep()
            done.append(True)

        process.start(sweep)
        world.run(lambda: bool(done), limit=world.now + 60)

    # --- Redis

    def _records(self) -> list[Record]:
        names = self._ask(("KEYS", keys.record("*")))
        found = self._database.execute([("HGETALL", name) for name in sorted(names)]) if names else []
        return [record for data in found if (record := Record.read(data))]

    def _ask(self, command: Arguments) -> Any:
        (reply,) = self._database.execute([command])
        assert not isinstance(reply, Exception), (command, reply)
        return reply


def bare(certificate: dict[str, Any]) -> dict[str, Any]:
    """A certificate without its times, its digest, and the seed, on which the counts here do not depend."""
    provenance = {name: value for name, value in certificate["provenance"].items() if not name.endswith("_at")}
    provenance["sampling"] = {
        name: value for name, value in provenance["sampling"].items() if name not in ("seed", "nonce")
    }
    return {**{name: value for name, value in certificate.items() if name != "digest"}, "provenance": provenance}


def _without(text: str, *names: str) -> str:
    return json.dumps({name: value for name, value in json.loads(text).items() if name not in names})


@cache
def _expected(request: str, image: int, index: int, images: int) -> dict[str, Any]:
    """The certificate at a place among some images; the other images do not matter."""
    pixels = torch.from_numpy(PIXELS[image]).expand(images, *SHAPE)
    seed = "0" * 64
    return bare(undisturbed(CertificationRequest.model_validate_json(request), pixels, index, seed))
