"""Commands that are carried out together, behind a guard or without one."""

from __future__ import annotations

from store.scripts.first_line import ALWAYS
from store.scripts.waiting import LISTS

RUN = (
    LISTS
    + """
-- Our own commands, beside those of the server. `store.waiting` and `store.transitions` make them.
local own = {}
local function perform(command)
  local ours = own[command[1]]
  if ours then ours(unpack(command, 2)) else redis.call(unpack(command)) end
end
-- Run commands of text in whose arguments words such as __name__ stand for what `filled` has.
local function run_filled(commands, filled)
  for _, command in ipairs(cjson.decode(commands)) do
    for at, argument in ipairs(command) do command[at] = string.gsub(argument, '__%l+__', filled) end
    perform(command)
  end
end
own['smoothcert.enter'] = function(lane, turns, owner, id, score, list)
  if redis.call('ZADD', lane, 'NX', score, id) == 0 then return end
  if not redis.call('ZSCORE', turns, owner) then
    local last = redis.call('ZRANGE', turns, -1, -1, 'WITHSCORES')[2]
    redis.call('ZADD', turns, (tonumber(last) or 0) + 1, owner)
  end
  if list ~= '' then redis.call('LPUSH', list, id) end
end
own['smoothcert.leave'] = function(lane, id, list)
  redis.call('ZREM', lane, id)
  hide(list, id)
end
-- Note with how many samples an execution begins, and when the first one of the certification did.
own['smoothcert.start'] = function(record, suffix, now)
  local saved, started = unpack(redis.call('HMGET', record, 'samples_saved' .. suffix, 'started_at'))
  redis.call('HSET', record, 'samples_at_start' .. suffix, saved or 0)
  if (tonumber(started) or 0) == 0 then redis.call('HSET', record, 'started_at', now) end
end
-- Forget the draws of images. The draws of an image are numbered without gaps.
own['smoothcert.undraw'] = function(draws, ...)
  for _, place in ipairs({...}) do
    local number = 0
    while redis.call('HDEL', draws, place .. '/' .. number) == 1 do number = number + 1 end
  end
end
own['smoothcert.due'] = function(set, id, pause)
  local seconds, microseconds = unpack(redis.call('TIME'))
  redis.call('ZADD', set, 'XX', string.format('%.6f', seconds + microseconds / 1e6 + pause), id)
end
-- Rank certificates that have arrived after all earlier ones. NX keeps the rank of a certificate that comes twice.
own['smoothcert.arrive'] = function(record, certificates, arrivals, ...)
  local last = tonumber(redis.call('ZRANGE', arrivals, -1, -1, 'WITHSCORES')[2]) or 0
  local entries = {}
  for _, place in ipairs({...}) do
    entries[#entries + 1] = last + 1
    entries[#entries + 1] = place
  end
  redis.call('ZADD', arrivals, 'NX', unpack(entries))
  redis.call('HSET', record, 'done', redis.call('HLEN', certificates))
end
-- Run commands for every shard that has not ended: `each` for all of them, `further` for all but the first. In their
-- arguments, __name__, __queue__, __execution__ and __lane__ stand for the values of the shard.
own['smoothcert.disband'] = function(record, certification, lane, each, further)
  local fields, found = redis.call('HKEYS', record), false
  for _, field in ipairs(fields) do found = found or string.find(field, '^status/') end
  if not (found or (tonumber(redis.call('HGET', record, 'shards')) or 0) > 0) then return end
  for _, field in ipairs(fields) do
    local shard = string.match(field, '^status/?(.*)$')
    if shard then
      local suffix = shard == '' and '' or '/' .. shard
      local queue, execution = unpack(redis.call('HMGET', record, 'queue' .. suffix, 'execution' .. suffix))
      local name = shard == '' and certification or certification .. '-' .. shard
      local filled = {__name__ = name, __queue__ = queue, __execution__ = execution or '', __lane__ = lane}
      run_filled(each, filled)
      if shard ~= '' then
        run_filled(further, filled)
        redis.call('HDEL', record, field)
      end
    end
  end
  redis.call('HSET', record, 'shards', 0)
end
-- Run the commands of a JSON array.
local function run_text(commands)
  for _, command in ipairs(cjson.decode(commands)) do perform(command) end
end
-- Run the commands that `packed` put into ARGV from the index `at` on.
local function run(at)
  -- A JSON array of all commands that are text comes first.
  run_text(ARGV[at])
  -- Each command with bytes in it follows, as the number n of its arguments and the n arguments.
  at = at + 1
  while at <= #ARGV do
    local n = tonumber(ARGV[at])
    redis.call(unpack(ARGV, at + 1, at + n))
    at = at + n + 1
  end
end
"""
)

GUARD = """
-- The guard of a call. It returns whether the record is as expected, and the status.
-- ARGV: the statuses that the record or the shard may have, joined by commas; the execution that it must belong to, or
-- nothing; the suffix of the shard's fields.
local function guard()
  local suffix = ARGV[3]
  local found = redis.call('HMGET', KEYS[1], 'status', 'status' .. suffix, 'execution' .. suffix)
  local status, own, execution = unpack(found)
  -- A shard that has ended has no status. If the certification has ended, all of its shards have.
  local over = suffix ~= '' and (status == 'succeeded' or status == 'failed' or status == 'canceled')
  if not own or over then return false, status or '' end
  local known = string.find(',' .. ARGV[1] .. ',', ',' .. own .. ',', 1, true)
  if not known or (ARGV[2] ~= '' and ARGV[2] ~= execution) then return false, own end
  return true, status == 'canceling' and status or own
end
"""

GUARDED = (
    ALWAYS
    + RUN
    + GUARD
    + """
-- KEYS: the record. ARGV: those of the guard; the commands.
local open, status = guard()
if not open then return {0, status} end
run(4)
return {1, status}
"""
)
"""Runs the commands if the record is as expected. Returns whether it did, and the status that it saw."""

TAKEN = (
    ALWAYS
    + RUN
    + GUARD
    + """
-- KEYS: the record, the list of ids taken. ARGV: those of the guard; the id; the commands.
local taken = redis.call('LREM', KEYS[2], 1, ARGV[4])
local open, status = guard()
if not open or taken == 0 then return {0, status} end
run(5)
return {1, status}
"""
)
"""Takes an id out of the list of those taken, and runs the commands if it was there and the record is as expected.

So an id moves on from that list once, and a worker that stood still has no say about what was put back meanwhile.
"""

DROP = (
    ALWAYS
    + """
-- KEYS: the record, the list of ids taken. ARGV: the suffix of the shard's fields; the id; the queue.
local status, queue = unpack(redis.call('HMGET', KEYS[1], 'status' .. ARGV[1], 'queue' .. ARGV[1]))
if status == 'queued' and queue == ARGV[3] then return {0, status} end
return {redis.call('LREM', KEYS[2], 1, ARGV[2]), status or ''}
"""
)
"""Takes an id out of the list of those taken, unless it waits to be begun. Returns what a guarded call returns."""

UNGUARDED = (
    ALWAYS
    + RUN
    + """
-- ARGV: the commands.
run(1)
return {1, ''}
"""
)
"""Runs the commands. Returns what a guarded call returns."""

ANSWERED = (
    ALWAYS
    + """
-- ARGV: the command.
return redis.call(unpack(ARGV))
"""
)
"""Runs one command and returns its answer."""
