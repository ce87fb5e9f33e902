"""What the archive lacks or must erase."""

from __future__ import annotations

from store.scripts.first_line import ALWAYS

ARCHIVE_CLAIM = (
    ALWAYS
    + """
-- KEYS: the certifications that the archive lacks or must erase; the score of each is the time at which it is due.
-- ARGV: a JSON object with most, lease and erasures (a prefix of keys).
local arguments, found = cjson.decode(ARGV[1]), {}
local seconds, microseconds = unpack(redis.call('TIME'))
local now = tonumber(seconds) + tonumber(microseconds) / 1e6
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, arguments.most)) do
  redis.call('ZADD', KEYS[1], string.format('%.6f', now + arguments.lease), id)
  found[#found + 1] = {id, redis.call('GET', arguments.erasures .. id) or ''}
end
return found
"""
)
"""Claims what is due, so that no other process has it in hand for a while. Returns ids, each with its erasure or ''."""

ARCHIVE_DONE = (
    ALWAYS
    + """
-- KEYS: the certifications that the archive lacks or must erase; the erasure of this certification; statistics.
-- ARGV: the certification; a JSON object with erasing, and either again and value, or, if it was written, shorter (the
-- seconds to live of each key).
local id, arguments = ARGV[1], cjson.decode(ARGV[2])
local seconds, microseconds = unpack(redis.call('TIME'))
local now = tonumber(seconds) + tonumber(microseconds) / 1e6
local known = redis.call('ZSCORE', KEYS[1], id)
if arguments.erasing then
  if known and arguments.again > 0 then
    redis.call('SET', KEYS[2], arguments.value)
    redis.call('ZADD', KEYS[1], string.format('%.6f', now + arguments.again), id)
    redis.call('HINCRBYFLOAT', KEYS[3], 'archive:erased', 1)
  else
    redis.call('ZREM', KEYS[1], id)
    redis.call('DEL', KEYS[2])
  end
elseif redis.call('EXISTS', KEYS[2]) == 1 then
  -- The certification was deleted while it was being written, so it is erased next.
  redis.call('ZADD', KEYS[1], 0, id)
elseif known then
  redis.call('ZREM', KEYS[1], id)
  if arguments.shorter then
    for key, ttl in pairs(arguments.shorter) do redis.call('EXPIRE', key, ttl) end
    redis.call('HINCRBYFLOAT', KEYS[3], 'archive:written', 1)
  end
end
return {1, ''}
"""
)
"""Settles what a process had in hand; a call that is sent twice counts once."""
