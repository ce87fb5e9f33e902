"""New work, and what its owners have under way."""

from __future__ import annotations

from store.scripts.commands import RUN
from store.scripts.first_line import ALWAYS, READING, WITH_ROOM
from store.scripts.waiting import PLACING

USED = """
-- The state of the request that an idempotency key was used for: 'conflict' for another request, 'replay' for the same
-- one, 'gone' if it has been deleted since; nil if the key is new.
local function used(key, digest, records)
  local value = redis.call('GET', key)
  if not value then return nil end
  local known, id = string.match(value, '^(%S+) (%S+)$')
  if known ~= digest then return {'conflict', id} end
  return {redis.call('EXISTS', records .. id) == 1 and 'replay' or 'gone', id}
end
"""

REPLAY = (
    READING
    + USED
    + """
-- KEYS: the idempotency key. ARGV: the digest of the request, the prefix of records.
return used(KEYS[1], ARGV[1], ARGV[2]) or {'new', ''}
"""
)
"""What became of the request that an idempotency key was used for; for a server that has no room for new ones."""

ACCEPT = (
    WITH_ROOM
    + RUN
    + PLACING
    + USED
    + """
-- KEYS: the idempotency key or, without one, the record; the record, RQ's list, the active set, bytes, samples.
-- ARGV: a JSON object with owner, id, size, budget, digest, now, limits and names; the commands.
local arguments = cjson.decode(ARGV[1])
local limits, owner = arguments.limits, arguments.owner
local function place() return tostring(placing(arguments.names, owner)(arguments.id, KEYS[3])) end
-- 1. The same call came before, and its reply was lost.
if redis.call('EXISTS', KEYS[2]) == 1 then return {'accepted', place()} end
-- 2. The idempotency key was used before, for the same request or for another one.
local before = arguments.digest ~= '' and used(KEYS[1], arguments.digest, arguments.names.records)
if before then return before end
-- 3. Check the limits of the owner, then those of the queue.
local active = redis.call('ZCOUNT', KEYS[4], arguments.now, '+inf')
if active >= limits.active then return {'busy', tostring(active)} end
local bytes, samples, all = 0, 0, 0
if active > 0 then
  bytes = math.max(0, tonumber(redis.call('HGET', KEYS[5], owner) or 0))
  samples = math.max(0, tonumber(redis.call('HGET', KEYS[6], owner) or 0))
end
if samples + arguments.budget > limits.samples then return {'busy_samples', string.format('%.0f', samples)} end
if bytes + arguments.size > limits.owner_bytes then return {'busy_bytes', string.format('%.0f', bytes)} end
local waiting = redis.call('LLEN', KEYS[3])
if waiting >= limits.waiting then return {'full', tostring(waiting)} end
local held = redis.call('HGETALL', KEYS[5])
for at = 1, #held, 2 do
  all = all + (held[at] == owner and bytes or math.max(0, tonumber(held[at + 1])))
end
if all + arguments.size > limits.bytes then return {'full_bytes', string.format('%.0f', all)} end
-- 4. Accept the request. An owner without active certifications holds nothing, even if records that expired were
-- counted.
if active == 0 then
  redis.call('HDEL', KEYS[5], owner)
  redis.call('HDEL', KEYS[6], owner)
end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', arguments.now)
run(2)
return {'accepted', place()}
"""
)
"""Takes a certification in, unless its key was used, the queue is full or its owner has too much under way.

A call that is sent twice takes it in once.
"""

RECOUNT = (
    ALWAYS
    + """
-- KEYS: bytes, samples. ARGV: now, the prefix of active sets.
for _, owner in ipairs(redis.call('HKEYS', KEYS[1])) do
  if redis.call('ZCOUNT', ARGV[2] .. owner, ARGV[1], '+inf') == 0 then
    redis.call('HDEL', KEYS[1], owner)
    redis.call('HDEL', KEYS[2], owner)
  end
end
return {1, ''}
"""
)
"""Forgets what was counted for owners of whom nothing is active: their records have ended or expired."""
