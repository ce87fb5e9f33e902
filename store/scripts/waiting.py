"""What waits in a pool: how it is found and read."""

from __future__ import annotations

from store.scripts.first_line import READING

LONG_LIST = 10_000
"""The length up to which RQ's list is searched, which takes up to half a millisecond."""
MOST_TURNS = 1000
"""The number of owners that one look at the turns considers."""

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
