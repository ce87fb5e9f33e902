"""Commands for Redis as data, and the scripts that run all of them or none.

A script is as indivisible as MULTI, and it can look before it writes. RQ's bookkeeping goes through the same scripts as
our record, so a crash cannot separate the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

Argument = str | bytes | int | float
Command = tuple[Argument, ...]

_RUN = """
-- Run the commands that `packed` put into ARGV from the place `at` on.
local function run(at)
  -- First a JSON array of all commands of text.
  for _, command in ipairs(cjson.decode(ARGV[at])) do
    redis.call(unpack(command))
  end
  -- Then each command with bytes in it: the number n of its arguments, and the n arguments.
  at = at + 1
  while at <= #ARGV do
    local n = tonumber(ARGV[at])
    redis.call(unpack(ARGV, at + 1, at + n))
    at = at + n + 1
  end
end
"""

GUARDED = (
    _RUN
    + """
-- KEYS: the record. ARGV: statuses it may have, joined by commas; the execution it must belong to, or nothing; commands
local status, execution = unpack(redis.call('HMGET', KEYS[1], 'status', 'execution'))
if not status then return {0, ''} end
local known = string.find(',' .. ARGV[1] .. ',', ',' .. status .. ',', 1, true)
if not known or (ARGV[2] ~= '' and ARGV[2] ~= execution) then return {0, status} end
run(3)
return {1, status}
"""
)
"""Runs the commands if the record is as expected. Returns whether it did, and the status that it saw."""

ACCEPT = (
    _RUN
    + """
-- KEYS: idempotency key or '-', waiting list, active set.
-- ARGV: digest of the request, most that may wait, most that may be active, now, prefix of records, id; commands
-- 1. The same call came before, and its answer was lost.
if redis.call('EXISTS', ARGV[5] .. ARGV[6]) == 1 then return {'accepted', '0'} end
-- 2. The idempotency key belongs to a certification that still exists: the same request, or another one.
if KEYS[1] ~= '-' then
  local used = redis.call('GET', KEYS[1])
  if used then
    local digest, id = string.match(used, '^(%S+) (%S+)$')
    if redis.call('EXISTS', ARGV[5] .. id) == 1 then
      return {digest == ARGV[1] and 'replay' or 'conflict', id}
    end
  end
end
-- 3. The limits of the queue and of the owner.
local waiting = redis.call('LLEN', KEYS[2])
if waiting >= tonumber(ARGV[2]) then return {'full', tostring(waiting)} end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ARGV[4])
local active = redis.call('ZCARD', KEYS[3])
if active >= tonumber(ARGV[3]) then return {'busy', tostring(active)} end
-- 4. Take it in.
run(7)
return {'accepted', tostring(waiting)}
"""
)
"""Takes a certification in, unless its key was used, the queue is full or its owner has too many active ones.

A call that is sent twice takes it in once.
"""

READ = """
-- KEYS: the record, its certificates. ARGV: prefix of waiting lists, id
local record = redis.call('HGETALL', KEYS[1])
local position = false
for i = 1, #record, 2 do
  if record[i] == 'status' and record[i + 1] == 'queued' then
    position = redis.call('LPOS', ARGV[1] .. redis.call('HGET', KEYS[1], 'queue'), ARGV[2]) or 0
  end
end
return cjson.encode({record, redis.call('HGETALL', KEYS[2]), position})
"""
"""Reads a certification at one moment, as one JSON text, which is cheaper to parse than a hundred replies.

The text has the record and the certificates, each as a list of names and values in turn ({} for an empty one), and the
number of certifications that wait before this one: 0 where it was taken and not begun, false where it does not wait.
"""

TAKE = """
-- KEYS: from, to. ARGV: how many at most
local taken = {}
while #taken < tonumber(ARGV[1]) do
  local id = redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT')
  if not id then break end
  taken[#taken + 1] = id
end
return taken
"""
"""Moves up to ARGV[1] ids from one list to the end of another, as BLMOVE does for one id."""


@dataclass(frozen=True)
class Call:
    """A script with its keys and arguments, ready for `redis.eval(*call.arguments)`."""

    script: str
    keys: tuple[str, ...]
    values: tuple[Argument, ...]

    @property
    def arguments(self) -> tuple[str | int | bytes | float, ...]:
        return (self.script, len(self.keys), *self.keys, *self.values)


def guarded(record: str, *, statuses: Iterable[str], execution: str = "", commands: Iterable[Command]) -> Call:
    """Run the commands if the record has one of these statuses and, where one is named, this execution."""
    return Call(GUARDED, (record,), (",".join(statuses), execution, *packed(commands)))


def packed(commands: Iterable[Command]) -> tuple[Argument, ...]:
    """Commands as the scripts read them: a JSON array of those of text, then each with bytes after its length.

    A client takes a hundred times longer to pack a hundred arguments than to pack one, and the end of a certification
    has more than a hundred.
    """
    text, binary = [], []
    for command in commands:
        if any(isinstance(argument, bytes) for argument in command):
            binary += [len(command), *command]
        else:
            text.append([str(argument) for argument in command])
    return (json.dumps(text), *binary)
