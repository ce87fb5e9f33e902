"""What waits in a pool: how it is found, read and taken."""

from __future__ import annotations

from store.scripts.first_line import ALWAYS, READING

LONG_LIST = 10_000
"""The length up to which RQ's list is searched, which takes up to half a millisecond."""
MOST_TURNS = 1000
"""The number of owners that one look at the turns considers."""
MOST_PASSED = 16
"""The number of shards that one look passes over in a lane, because the worker has another shard of the same
certification. What the worker leaves to others comes on top, or enough of it would hide everything behind it."""
IDLE_TTL = 60
"""Seconds after which the set of idle workers, and that of their loads, is gone if all of them are."""
SUMMONS_TTL = 5
"""Seconds for which a worker can be late to find that it was called."""

LISTS = f"""
local LONG = {LONG_LIST}
-- Remove an id from RQ's list. A longer list keeps it until it reaches the head, where TAKE hands it out as a stray.
local function hide(list, id)
  if redis.call('LINDEX', list, 0) == id then redis.call('LPOP', list)
  elseif redis.call('LLEN', list) <= LONG then redis.call('LREM', list, 1, id) end
end
"""

PLACING = f"""
-- A function of a place in this owner's lane, and the number of certifications that wait in all lanes. The function
-- counts the certifications of all owners that are taken before the one at the place.
local function line(turns, lanes, owner)
  local others, before, all = {{}}, true, 0
  for _, each in ipairs(redis.call('ZRANGE', turns, 0, {MOST_TURNS - 1})) do
    local waits = redis.call('ZCARD', lanes .. each)
    all = all + waits
    if each == owner then before = false else others[#others + 1] = {{waits, before and 1 or 0}} end
  end
  local function ahead(place)
    local sum = place
    for _, other in ipairs(others) do sum = sum + math.min(other[1], place + other[2]) end
    return sum
  end
  return ahead, all
end
-- A function that counts the certifications that are taken before a waiting one of this owner. `names` has the keys of
-- the pool.
local function placing(names, owner)
  local hurried, urgent = line(names.urgent_turns, names.urgent, owner)
  local ahead = line(names.turns, names.lanes, owner)
  return function(id, list)
    local place = redis.call('ZRANK', names.urgent .. owner, id)
    if place then return hurried(place) end
    place = redis.call('ZRANK', names.lanes .. owner, id)
    -- The certification was just taken, is a suspect, or was put there by an earlier version.
    if not place then return redis.call('LPOS', list, id, 'MAXLEN', {LONG_LIST}) or 0 end
    return urgent + ahead(place)
  end
end
"""

READ = (
    READING
    + PLACING
    + """
-- KEYS: the record, its certificates.
-- ARGV: the owner that it must have, or '' for any; a JSON object with prefixes of keys; the most certificates.
local fields = {'owner', 'status', 'pool', 'queue', 'id', 'images', 'done'}
local owner, status, pool, queue, id, images, done = unpack(redis.call('HMGET', KEYS[1], unpack(fields)))
if not owner or (ARGV[1] ~= '' and ARGV[1] ~= owner) then return {'', {}} end
local position = false
if status == 'queued' then
  local prefix = cjson.decode(ARGV[2])
  local names = {
    lanes = prefix.lanes .. pool .. ':', turns = prefix.turns .. pool,
    urgent = prefix.urgent .. pool .. ':', urgent_turns = prefix.urgent_turns .. pool
  }
  position = placing(names, owner)(id, prefix.lists .. queue)
end
local places = {}
if (tonumber(done) or 0) > 0 then
  for place = 0, math.min(tonumber(images), tonumber(ARGV[3])) - 1 do places[#places + 1] = place end
end
local text = cjson.encode({redis.call('HGETALL', KEYS[1]), position})
return {text, #places > 0 and redis.call('HMGET', KEYS[2], unpack(places)) or {}}
"""
)
"""Reads a record of an owner and its place in the queue, as one JSON text, which is cheaper to parse than many replies;
then the certificates of its first images, where it has any, so that a small certification is read in one round trip.

The text has the record as a list of names and values in turn, and the number of certifications that are taken before
this one: 0 where it was taken and not begun, false where it does not wait. There is no text where there is no such
record.
"""

PLACES = (
    READING
    + PLACING
    + """
-- ARGV: a JSON object with the keys of the pool; the owner; the ids, each followed by its list of RQ.
local place, places = placing(cjson.decode(ARGV[1]), ARGV[2]), {}
for at = 3, #ARGV, 2 do places[#places + 1] = place(ARGV[at], ARGV[at + 1]) end
return places
"""
)
"""The places of certifications of one owner that wait in a pool."""

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
    + LISTS
    + SHARING
    + f"""
-- KEYS: RQ's list, the list of ids taken, urgent turns, turns, idle workers, loads.
-- ARGV: a JSON object with most, bytes, busy, share, free (an owner without a share), held, lanes, urgent (the lanes of
-- certifications with priority), records, mine (certifications under way), passed (certifications that the worker
-- leaves to others), worker (its name if it is idle), until (the time from which on it no longer counts as idle), among
-- (a worker that shares the waiting work with others, or null) and summons.
local arguments, taken, blocked = cjson.decode(ARGV[1]), {{}}, 0
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
-- Take an id, unless its images are too large beside those under way. Return whether it was taken.
local function take(id, lane)
  local size = tonumber(redis.call('HGET', arguments.records .. certification(id), 'size') or 0) or 0
  if size > arguments.bytes and (arguments.busy or #taken > 0) then
    blocked = 1
    return false
  end
  arguments.bytes = arguments.bytes - size
  if lane then redis.call('ZREM', lane, id) end
  hide(list, id)
  redis.call('RPUSH', KEYS[2], id)
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
"""Takes ids that wait, and moves them to the list of those taken. Returns whether something waits that a worker may not
take beside what it has, and the ids."""

TAKE_SUSPECT = (
    ALWAYS
    + """
-- KEYS: the list to take from, the list to add to.
return redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT')
"""
)
"""Moves the first id of one list to the end of another; returns it, or nothing."""
