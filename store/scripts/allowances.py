"""What all API processes give out together: uses of an allowance, and times to come back."""

from __future__ import annotations

from store.scripts.first_line import ALWAYS

SPEND = (
    ALWAYS
    + """
-- KEYS: a sorted set of members; the score of each is the time until which its allowance is spent.
-- ARGV: the member, the seconds for which one use counts, the uses at a time, the wanted uses, the most members.
local seconds, microseconds = unpack(redis.call('TIME'))
local now = tonumber(seconds) + tonumber(microseconds) / 1e6
local each, most, wanted = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local spent = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or now)
local given = math.max(0, math.min(wanted, math.floor((now - spent) / each + most + 1e-6)))
if given > 0 then
  spent = spent + given * each
  redis.call('ZADD', KEYS[1], string.format('%.6f', spent), ARGV[1])
  if redis.call('ZCARD', KEYS[1]) > tonumber(ARGV[5]) then redis.call('ZPOPMIN', KEYS[1]) end
end
return {given, string.format('%.6f', math.max(0, spent - now - (most - 1) * each))}
"""
)
"""Spends an allowance that comes back with time. Returns how many uses are given, and the seconds until the next."""

COME_BACK = (
    ALWAYS
    + """
-- KEYS: the last time that was given out.
-- ARGV: the seconds until there is room, the pause between two clients, the longest spread.
local seconds, microseconds = unpack(redis.call('TIME'))
local now = tonumber(seconds) + tonumber(microseconds) / 1e6
local room, pause, spread = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local last = tonumber(redis.call('GET', KEYS[1]) or now)
local turn = math.min(math.max(now + room, last + pause), now + math.max(room, spread))
redis.call('SET', KEYS[1], string.format('%.6f', turn), 'EX', math.ceil(turn - now) + 1)
return string.format('%.6f', turn - now)
"""
)
"""The seconds after which the next client that found a queue full should return; each is told its own time."""
