"""Webhooks that are due."""

from __future__ import annotations

from store.scripts.first_line import ALWAYS

CLAIM = (
    ALWAYS
    + """
-- KEYS: the deliveries; the score of each is the time at which it is due.
-- ARGV: a JSON object with most, share, held, lease, pause and deliveries (a prefix of keys).
local arguments, found = cjson.decode(ARGV[1]), {}
local seconds, microseconds = unpack(redis.call('TIME'))
local now = tonumber(seconds) + tonumber(microseconds) / 1e6
local function due_in(id, pause) redis.call('ZADD', KEYS[1], string.format('%.6f', now + pause), id) end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)) do
  if #found == arguments.most then break end
  local key = arguments.deliveries .. id
  local url, owner, body = unpack(redis.call('HMGET', key, 'url', 'owner', 'body'))
  if not owner then
    redis.call('ZREM', KEYS[1], id)
  elseif (arguments.held[owner] or 0) >= arguments.share then
    due_in(id, arguments.pause)
  else
    arguments.held[owner] = (arguments.held[owner] or 0) + 1
    due_in(id, arguments.lease)
    found[#found + 1] = {id, url, owner, body, redis.call('HINCRBY', key, 'attempts', 1)}
  end
end
return found
"""
)
"""Claims deliveries that are due, so that no other process sends them for a while; each claim counts as an attempt."""
