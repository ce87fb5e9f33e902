"""How a worker takes what waits in a pool, and begins it."""

from __future__ import annotations

from store.scripts.commands import RUN
from store.scripts.first_line import ALWAYS
from store.scripts.waiting import MOST_TURNS

MOST_PASSED = 16
"""The number of shards that one look passes over in a lane, because the worker has another shard of the same
certification. What the worker leaves to others comes on top, or enough of it would hide everything behind it."""
IDLE_TTL = 60
"""Seconds after which the set of idle workers, and that of their loads, is gone if all of them are."""
SUMMONS_TTL = 5
"""Seconds for which a worker can be late to find that it was called."""

SHARING = f"""
-- The number of further certifications that bring a worker level with the others that look for work, so that a burst is
-- spread over all of them, and the least loaded of the others.
local function level(loads, worker, live, waiting, now)
  local total, workers, least, calm = live + waiting, 1, math.huge, nil
  local found = redis.call('HGETALL', loads)
  for at = 1, #found, 2 do
    local number, last = string.match(found[at + 1], '^(%d+) (%S+)$')
    if tonumber(last) < now then redis.call('HDEL', loads, found[at])
    elseif found[at] ~= worker then
      total, workers = total + number, workers + 1
      if tonumber(number) < least then least, calm = tonumber(number), found[at] end
    end
  end
  return math.max(0, math.ceil(total / workers) - live), calm
end
-- Call a worker, which then looks for work at once.
local function summon(list)
  if redis.call('EXISTS', list) == 1 then return end
  redis.call('LPUSH', list, 1)
  redis.call('EXPIRE', list, {SUMMONS_TTL})
end
"""

TAKE = (
    ALWAYS
    + RUN
    + SHARING
    + f"""
-- KEYS: RQ's list, the list of ids taken, urgent turns, turns, idle workers, loads.
-- ARGV: the commands that begin a certification, and a JSON object with queue, holds (ensembles), most, bytes, busy,
-- share, free (an owner without a share), held, lanes, urgent (the lanes of certifications with priority), records,
-- mine (certifications under way), passed (certifications that the worker leaves to others), worker (its name if it is
-- idle), until (the time from which on it no longer counts as idle), among (a worker that shares the waiting work with
-- others, or null) and summons.
local arguments, taken, blocked = cjson.decode(ARGV[2]), {{}}, 0
local list, held = KEYS[1], arguments.held
local function certification(id) return string.match(id, '^[^-]*') end
-- The first id in a lane that this worker may take. Two kinds are for others: shards of certifications that it has
-- under way, which it may take once those have ended, and certifications that it leaves to others for much longer than
-- a look lasts.
local reach = {MOST_PASSED - 1}
for _ in pairs(arguments.passed) do reach = reach + 1 end
local function first(lane)
  for _, id in ipairs(redis.call('ZRANGE', lane, 0, reach)) do
    local whole = certification(id)
    if arguments.mine[whole] then blocked = 1
    elseif not arguments.passed[whole] then return id end
  end
end
-- Take an id, unless its images are too large beside those under way. Return whether it was taken. A certification that
-- waits in a lane for an ensemble that the worker holds begins at once. Every other id goes to the list of ids taken,
-- until the worker has looked at it.
local function take(id, lane)
  local whole, suffix = string.match(id, '^([^-]*)-?(.*)$')
  if suffix ~= '' then suffix = '/' .. suffix end
  local fields = {{'size', 'ensemble', 'status', 'status' .. suffix, 'queue' .. suffix}}
  local found = redis.call('HMGET', arguments.records .. whole, unpack(fields))
  local size, ensemble, overall, status, queue = tonumber(found[1]) or 0, unpack(found, 2)
  if size > arguments.bytes and (arguments.busy or #taken > 0) then
    blocked = 1
    return false
  end
  arguments.bytes = arguments.bytes - size
  if lane then redis.call('ZREM', lane, id) end
  hide(list, id)
  local ready = status == 'queued' and overall ~= 'canceling' and queue == arguments.queue
  if lane and ready and arguments.holds[ensemble] then
    run_filled(ARGV[1], {{__name__ = id, __certification__ = whole, __suffix__ = suffix}})
  else redis.call('RPUSH', KEYS[2], id) end
  taken[#taken + 1] = id
  if arguments.worker ~= '' then redis.call('ZREM', KEYS[5], arguments.worker) end
  return true
end
local function waits(id)
  local owner = redis.call('HGET', arguments.records .. certification(id), 'owner')
  if not owner then return false end
  return redis.call('ZSCORE', arguments.urgent .. owner, id) or redis.call('ZSCORE', arguments.lanes .. owner, id)
end
-- 0. The worker takes no more than its share while others have less under way.
local free, live, calm, among = arguments.most, 0, nil, arguments.among ~= cjson.null and arguments.among
for _, number in pairs(held) do live = live + number end
if among then
  local share, other = level(KEYS[6], among.worker, live, redis.call('LLEN', list), among.now)
  arguments.most, calm = math.min(free, share), other
end
-- 1. Take strays: ids at the head of RQ's list that wait in no lane. An earlier version or another program put them
-- there, or they were taken or canceled while the list was long. The worker tells them apart.
while #taken < arguments.most do
  local id = redis.call('LINDEX', list, 0)
  if not id or waits(id) then break end
  if not take(id) then return {{blocked, taken}} end
end
-- 2. Serve the owners in turn, with one certification each. An owner that has its share under way keeps its turn. The
-- function returns whether everything that it found could be taken beside what is under way.
local function serve(turns, lanes)
  local ring = redis.call('ZRANGE', turns, 0, {MOST_TURNS - 1})
  local last = tonumber(redis.call('ZRANGE', turns, -1, -1, 'WITHSCORES')[2]) or 0
  local at = 1
  while #taken < arguments.most and at <= #ring do
    local owner, lane = ring[at], lanes .. ring[at]
    local id = first(lane)
    if not id then
      if redis.call('EXISTS', lane) == 0 then redis.call('ZREM', turns, owner) end
    elseif owner ~= arguments.free and (held[owner] or 0) >= arguments.share then
      blocked = 1
    else
      if not take(id, lane) then return false end
      held[owner], last = (held[owner] or 0) + 1, last + 1
      redis.call('ZADD', turns, last, owner)
      ring[#ring + 1] = owner
    end
    at = at + 1
  end
  return true
end
-- Certifications with priority come first, within the same shares.
if serve(KEYS[3], arguments.urgent) then serve(KEYS[4], arguments.lanes) end
-- 3. Tell the others how much this worker has under way, unless it may not take what waits, and call one of them for
-- what it leaves.
if among then
  if blocked == 1 and #taken == 0 then redis.call('HDEL', KEYS[6], among.worker)
  else
    redis.call('HSET', KEYS[6], among.worker, string.format('%d %.6f', live + #taken, among['until']))
    redis.call('EXPIRE', KEYS[6], {IDLE_TTL})
  end
  if calm and #taken == arguments.most and #taken < free and redis.call('LLEN', list) > 0 then
    summon(arguments.summons .. calm)
    blocked = 1
  end
end
-- 4. List a worker that finds nothing as idle, so that one with something to divide finds it.
if arguments.worker ~= '' and #taken == 0 and blocked == 0 then
  redis.call('ZADD', KEYS[5], string.format('%.6f', arguments['until']), arguments.worker)
  redis.call('EXPIRE', KEYS[5], {IDLE_TTL})
end
return {{blocked, taken}}
"""
)
"""Takes ids that wait, and begins them or moves them to the list of those taken. Returns whether something waits that a
worker may not take beside what it has, and the ids."""

TAKE_SUSPECT = (
    ALWAYS
    + """
-- KEYS: the list to take from, the list to add to.
return redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT')
"""
)
"""Moves the first id of one list to the end of another; returns it, or nothing."""
