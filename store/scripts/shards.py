"""Shards: one is divided, or one ends and others may be left."""

from __future__ import annotations

from store.scripts.commands import GUARD, RUN
from store.scripts.first_line import ALWAYS

DIVIDE = (
    ALWAYS
    + RUN
    + GUARD
    + """
-- KEYS: the record, the idle workers.
-- ARGV: those of the guard; the name of the new shard, the worker that divides, now, the prefix of summons, 1 if the
-- certification ends with the new shard or 0 if it may end without it; the commands.
local open, status = guard()
if not open or status ~= 'running' then return {0, status} end
local suffix, name = ARGV[3], ARGV[4]
if redis.call('HGET', KEYS[1], 'given' .. suffix) == name then return {1, status} end
redis.call('ZREM', KEYS[2], ARGV[5])
local worker = redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[6], '+inf', 'LIMIT', 0, 1)[1]
if not worker then return {0, status} end
redis.call('ZREM', KEYS[2], worker)
if ARGV[8] == '1' then
  local shards = tonumber(redis.call('HGET', KEYS[1], 'shards')) or 0
  redis.call('HSET', KEYS[1], 'shards', math.max(1, shards) + 1)
end
redis.call('HSET', KEYS[1], 'given' .. suffix, name)
run(9)
redis.call('LPUSH', ARGV[7] .. worker, 1)
redis.call('EXPIRE', ARGV[7] .. worker, 5)
return {1, status}
"""
)
"""Divides a shard, if a worker is idle, and calls that worker. A call that is sent twice divides once."""

FINISH = (
    ALWAYS
    + RUN
    + GUARD
    + """
-- KEYS: the record.
-- ARGV: those of the guard; the text commands if other shards have not ended; those if this is the last one; the
-- commands for either case.
local open, status = guard()
if not open then return {0, status} end
local last = (tonumber(redis.call('HGET', KEYS[1], 'shards')) or 0) <= 1
run(6)
if last then run_text(ARGV[5]) else
  run_text(ARGV[4])
  redis.call('HINCRBY', KEYS[1], 'shards', -1)
end
return {1, status}
"""
)
"""Ends a shard and, if no other one is left, the certification. Returns what a guarded call returns."""
