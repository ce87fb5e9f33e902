"""The scripts that run in the server. A script is as indivisible as MULTI, and it can look before it writes.

The first line of a script says what happens where the server's memory is full. Without that line, Redis refuses the
first write of a script that needs memory, but lets every write pass once the script has deleted something: the limit
would not bind. With it, a script is refused before its first command or not at all.
"""

from __future__ import annotations

WITH_ROOM = "#!lua\n"
"""The first line of a script for new work, which the server refuses as a whole where its memory is full."""
ALWAYS = "#!lua flags=allow-oom\n"
"""The first line of a script for work that was accepted: it must end, because only then its memory becomes free."""
READING = "#!lua flags=no-writes\n"
"""The first line of a script that writes nothing."""

LONG_LIST = 10_000
"""The length up to which RQ's list is searched, which takes up to half a millisecond."""
MOST_TURNS = 1000
"""The number of owners that one look at the turns considers."""
MOST_PASSED = 16
"""The number of shards that one look passes over in a lane, because the worker has another shard of the same
certification."""
IDLE_TTL = 60
"""Seconds after which the set of idle workers is gone if all of them are."""

_LISTS = f"""
local LONG = {LONG_LIST}
-- Take an id out of RQ's list. A longer list keeps it until it comes to the head, where TAKE hands it out as a stray.
local function hide(list, id)
  if redis.call('LINDEX', list, 0) == id then redis.call('LPOP', list)
  elseif redis.call('LLEN', list) <= LONG then redis.call('LREM', list, 1, id) end
end
"""

_RUN = (
    _LISTS
    + """
-- Commands of our own, beside those of the server; `store.waiting` and `store.transitions` make them.
local own = {}
own['smoothcert.enter'] = function(lane, turns, owner, id, score, list)
  if redis.call('ZADD', lane, 'NX', score, id) == 0 then return end
  if turns ~= '' and not redis.call('ZSCORE', turns, owner) then
    local last = redis.call('ZRANGE', turns, -1, -1, 'WITHSCORES')[2]
    redis.call('ZADD', turns, (tonumber(last) or 0) + 1, owner)
  end
  if list ~= '' then redis.call('LPUSH', list, id) end
end
own['smoothcert.leave'] = function(lane, id, list)
  redis.call('ZREM', lane, id)
  hide(list, id)
end
-- Forget the draws of images. They are numbered without a gap.
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
-- Note certificates that have arrived, after all that arrived before; NX keeps the rank of one that came twice.
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
-- Run the commands for every shard that has not ended: `each` for all, `further` for all but the first. In their
-- arguments, __name__, __queue__, __execution__ and __lane__ stand for those of the shard.
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
      local commands = cjson.decode(each)
      if shard ~= '' then
        for _, command in ipairs(cjson.decode(further)) do commands[#commands + 1] = command end
        redis.call('HDEL', record, field)
      end
      for _, command in ipairs(commands) do
        for at, argument in ipairs(command) do command[at] = string.gsub(argument, '__%l+__', filled) end
        if own[command[1]] then own[command[1]](unpack(command, 2)) else redis.call(unpack(command)) end
      end
    end
  end
  redis.call('HSET', record, 'shards', 0)
end
-- Run the commands that `packed` put into ARGV from the place `at` on.
local function run_text(commands)
  for _, command in ipairs(cjson.decode(commands)) do
    local ours = own[command[1]]
    if ours then ours(unpack(command, 2)) else redis.call(unpack(command)) end
  end
end
local function run(at)
  -- First a JSON array of all commands of text.
  run_text(ARGV[at])
  -- Then each command with bytes in it: the number n of its arguments, and the n arguments.
  at = at + 1
  while at <= #ARGV do
    local n = tonumber(ARGV[at])
    redis.call(unpack(ARGV, at + 1, at + n))
    at = at + n + 1
  end
end
"""
)

_PLACES = f"""
-- How many certifications are taken before one of this owner that waits. `names` has the keys of the pool.
local function placing(names, owner)
  local lane = names.lanes .. owner
  local others, before = {{}}, true
  for _, each in ipairs(redis.call('ZRANGE', names.turns, 0, {MOST_TURNS - 1})) do
    if each == owner then before = false
    else others[#others + 1] = {{redis.call('ZCARD', names.lanes .. each), before and 1 or 0}} end
  end
  local urgent = redis.call('ZCARD', names.urgent)
  return function(id, list)
    local place = redis.call('ZRANK', names.urgent, id)
    if place then return place end
    place = redis.call('ZRANK', lane, id)
    -- It was just taken, it is a suspect, or an earlier version put it there.
    if not place then return redis.call('LPOS', list, id, 'MAXLEN', {LONG_LIST}) or 0 end
    local ahead = urgent + place
    for _, other in ipairs(others) do ahead = ahead + math.min(other[1], place + other[2]) end
    return ahead
  end
end
"""

_GUARD = """
-- The guard of a call. ARGV: statuses that the record or the shard may have, joined by commas; the execution it must
-- belong to, or nothing; the suffix of the shard's fields. Returns whether it holds, and the status.
local function guard()
  local suffix = ARGV[3]
  local found = redis.call('HMGET', KEYS[1], 'status', 'status' .. suffix, 'execution' .. suffix)
  local status, own, execution = unpack(found)
  -- A shard that has ended has no status. All shards have ended where the certification has.
  local over = suffix ~= '' and (status == 'succeeded' or status == 'failed' or status == 'canceled')
  if not own or over then return false, status or '' end
  local known = string.find(',' .. ARGV[1] .. ',', ',' .. own .. ',', 1, true)
  if not known or (ARGV[2] ~= '' and ARGV[2] ~= execution) then return false, own end
  return true, status == 'canceling' and status or own
end
"""

GUARDED = (
    ALWAYS
    + _RUN
    + _GUARD
    + """
-- KEYS: the record. ARGV: those of the guard; commands
local open, status = guard()
if not open then return {0, status} end
run(4)
return {1, status}
"""
)
"""Runs the commands if the record is as expected. Returns whether it did, and the status that it saw."""

FINISH = (
    ALWAYS
    + _RUN
    + _GUARD
    + """
-- KEYS: the record. ARGV: those of the guard; commands of text if other shards have not ended, and if this is the last;
-- commands for either case
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

DIVIDE = (
    ALWAYS
    + _RUN
    + _GUARD
    + """
-- KEYS: the record, the idle workers. ARGV: those of the guard; name of the new shard, worker that divides, now, prefix
-- of summons, 1 if the certification ends with the new shard or 0 if it may end without; commands
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

UNGUARDED = (
    ALWAYS
    + _RUN
    + """
-- ARGV: commands
run(1)
return {1, ''}
"""
)
"""Runs the commands. Returns what a guarded call returns."""

ANSWERED = (
    ALWAYS
    + """
-- ARGV: a command
return redis.call(unpack(ARGV))
"""
)
"""Runs one command and returns its answer."""

_USED = """
-- What became of the request that an idempotency key was used for; nil if the key is new.
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
    + _USED
    + """
-- KEYS: idempotency key. ARGV: digest of the request, prefix of records
return used(KEYS[1], ARGV[1], ARGV[2]) or {'new', ''}
"""
)
"""What became of the request that an idempotency key was used for; for a server that has no room for new ones."""

ACCEPT = (
    WITH_ROOM
    + _RUN
    + _PLACES
    + _USED
    + """
-- KEYS: idempotency key or, without one, the record; record, RQ's list, active set, bytes, samples.
-- ARGV: what is asked, as JSON: owner, id, size, budget, digest, now, limits, names; commands
local asked = cjson.decode(ARGV[1])
local limits, owner = asked.limits, asked.owner
local function place() return tostring(placing(asked.names, owner)(asked.id, KEYS[3])) end
-- 1. The same call came before, and its answer was lost.
if redis.call('EXISTS', KEYS[2]) == 1 then return {'accepted', place()} end
-- 2. The idempotency key was used: for the same request, which may have been deleted since, or for another one.
local before = asked.digest ~= '' and used(KEYS[1], asked.digest, asked.names.records)
if before then return before end
-- 3. The limits of the owner, then those of the queue.
local active = redis.call('ZCOUNT', KEYS[4], asked.now, '+inf')
if active >= limits.active then return {'busy', tostring(active)} end
local bytes, samples, all = 0, 0, 0
if active > 0 then
  bytes = math.max(0, tonumber(redis.call('HGET', KEYS[5], owner) or 0))
  samples = math.max(0, tonumber(redis.call('HGET', KEYS[6], owner) or 0))
end
if samples + asked.budget > limits.samples then return {'busy_samples', string.format('%.0f', samples)} end
if bytes + asked.size > limits.owner_bytes then return {'busy_bytes', string.format('%.0f', bytes)} end
local waiting = redis.call('LLEN', KEYS[3])
if waiting >= limits.waiting then return {'full', tostring(waiting)} end
local held = redis.call('HGETALL', KEYS[5])
for at = 1, #held, 2 do
  all = all + (held[at] == owner and bytes or math.max(0, tonumber(held[at + 1])))
end
if all + asked.size > limits.bytes then return {'full_bytes', string.format('%.0f', all)} end
-- 4. Take it in. An owner of whom nothing is active holds nothing, whatever was counted for records that expired.
if active == 0 then
  redis.call('HDEL', KEYS[5], owner)
  redis.call('HDEL', KEYS[6], owner)
end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', asked.now)
run(2)
return {'accepted', place()}
"""
)
"""Takes a certification in, unless its key was used, the queue is full or its owner has too much under way.

A call that is sent twice takes it in once.
"""

READ = (
    READING
    + _PLACES
    + """
-- KEYS: the record. ARGV: the owner it must have, or '' for any; prefixes of keys, as JSON
local owner, status, pool, queue, id = unpack(redis.call('HMGET', KEYS[1], 'owner', 'status', 'pool', 'queue', 'id'))
if not owner or (ARGV[1] ~= '' and ARGV[1] ~= owner) then return '' end
local position = false
if status == 'queued' then
  local prefix = cjson.decode(ARGV[2])
  local names = {
    lanes = prefix.lanes .. pool .. ':', turns = prefix.turns .. pool, urgent = prefix.urgent .. pool
  }
  position = placing(names, owner)(id, prefix.lists .. queue)
end
return cjson.encode({redis.call('HGETALL', KEYS[1]), position})
"""
)
"""Reads a record of an owner and its place in the queue, as one JSON text, which is cheaper to parse than many replies.

The text has the record as a list of names and values in turn, and the number of certifications that are taken before
this one: 0 where it was taken and not begun, false where it does not wait. It is empty where there is no such record.
"""

PLACES = (
    READING
    + _PLACES
    + """
-- ARGV: names of the pool, as JSON; the owner; ids, each with RQ's list that it is in
local place, places = placing(cjson.decode(ARGV[1]), ARGV[2]), {}
for at = 3, #ARGV, 2 do places[#places + 1] = place(ARGV[at], ARGV[at + 1]) end
return places
"""
)
"""The places of certifications of one owner that wait in a pool."""

TAKE = (
    ALWAYS
    + _LISTS
    + f"""
-- KEYS: RQ's list, list of ids taken, urgent, turns, idle workers.
-- ARGV: what is asked, as JSON: most, bytes, busy, share, free (an owner without a share), held, lanes, records,
-- mine (certifications under way), worker (its name if it is idle), until (when it counts as idle no longer)
local asked, taken, blocked = cjson.decode(ARGV[1]), {{}}, 0
local list, urgent, turns, held = KEYS[1], KEYS[3], KEYS[4], asked.held
local function certification(id) return string.match(id, '^[^-]*') end
-- The first that waits in a lane, apart from shards of what the worker has under way: others are to take them.
local function first(lane)
  for _, id in ipairs(redis.call('ZRANGE', lane, 0, {MOST_PASSED - 1})) do
    if not asked.mine[certification(id)] then return id end
    blocked = 1
  end
end
-- Take an id, unless its images are too large beside those that are under way.
local function take(id, lane)
  local size = tonumber(redis.call('HGET', asked.records .. certification(id), 'size') or 0) or 0
  if size > asked.bytes and (asked.busy or #taken > 0) then
    blocked = 1
    return false
  end
  asked.bytes = asked.bytes - size
  if lane then redis.call('ZREM', lane, id) end
  hide(list, id)
  redis.call('RPUSH', KEYS[2], id)
  taken[#taken + 1] = id
  if asked.worker ~= '' then redis.call('ZREM', KEYS[5], asked.worker) end
  return true
end
-- 1. Strays: ids at the head of RQ's list that wait in no lane. An earlier version or another program put them there,
-- or they were taken or canceled while the list was long. The worker tells them apart.
while #taken < asked.most do
  local id = redis.call('LINDEX', list, 0)
  if not id or redis.call('ZSCORE', urgent, id) then break end
  local owner = redis.call('HGET', asked.records .. certification(id), 'owner')
  if owner and redis.call('ZSCORE', asked.lanes .. owner, id) then break end
  if not take(id) then return {{blocked, taken}} end
end
-- 2. What has priority.
while #taken < asked.most do
  local id = first(urgent)
  if not id then break end
  if not take(id, urgent) then return {{blocked, taken}} end
end
-- 3. The owners in turn, one certification each; an owner that has its share under way keeps its turn.
local ring = redis.call('ZRANGE', turns, 0, {MOST_TURNS - 1})
local last = tonumber(redis.call('ZRANGE', turns, -1, -1, 'WITHSCORES')[2]) or 0
local at = 1
while #taken < asked.most and at <= #ring do
  local owner, lane = ring[at], asked.lanes .. ring[at]
  local id = first(lane)
  if not id then
    if redis.call('EXISTS', lane) == 0 then redis.call('ZREM', turns, owner) end
  elseif owner ~= asked.free and (held[owner] or 0) >= asked.share then
    blocked = 1
  else
    if not take(id, lane) then break end
    held[owner], last = (held[owner] or 0) + 1, last + 1
    redis.call('ZADD', turns, last, owner)
    ring[#ring + 1] = owner
  end
  at = at + 1
end
-- 4. A worker that finds nothing is idle; one that has something to divide looks for it there.
if asked.worker ~= '' and #taken == 0 and blocked == 0 then
  redis.call('ZADD', KEYS[5], string.format('%.6f', asked['until']), asked.worker)
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
-- KEYS: from, to
return redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT')
"""
)
"""Moves the first id of one list to the end of another; returns it, or nothing."""

RECOUNT = (
    ALWAYS
    + """
-- KEYS: bytes, samples. ARGV: now, prefix of active sets
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

SPEND = (
    ALWAYS
    + """
-- KEYS: a sorted set of members, scored by the time until which the allowance of each is spent.
-- ARGV: member, seconds for which one use counts, uses at a time, how many are wanted, most members
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
-- KEYS: the last time that was given out. ARGV: seconds until there is room, pause between two clients, longest spread
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

CLAIM = (
    ALWAYS
    + """
-- KEYS: deliveries, scored by when each is due.
-- ARGV: what is asked, as JSON: most, share, held, lease, pause, deliveries (a prefix of keys)
local asked, found = cjson.decode(ARGV[1]), {}
local seconds, microseconds = unpack(redis.call('TIME'))
local now = tonumber(seconds) + tonumber(microseconds) / 1e6
local function due_in(id, pause) redis.call('ZADD', KEYS[1], string.format('%.6f', now + pause), id) end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)) do
  if #found == asked.most then break end
  local key = asked.deliveries .. id
  local url, owner, body = unpack(redis.call('HMGET', key, 'url', 'owner', 'body'))
  if not owner then
    redis.call('ZREM', KEYS[1], id)
  elseif (asked.held[owner] or 0) >= asked.share then
    due_in(id, asked.pause)
  else
    asked.held[owner] = (asked.held[owner] or 0) + 1
    due_in(id, asked.lease)
    found[#found + 1] = {id, url, owner, body, redis.call('HINCRBY', key, 'attempts', 1)}
  end
end
return found
"""
)
"""Claims deliveries that are due, so that no other process sends them for a while; each claim counts as an attempt."""

ARCHIVE_CLAIM = (
    ALWAYS
    + """
-- KEYS: what the archive lacks or must erase, scored by when each is due.
-- ARGV: what is asked, as JSON: most, lease, erasures (a prefix of keys)
local asked, found = cjson.decode(ARGV[1]), {}
local seconds, microseconds = unpack(redis.call('TIME'))
local now = tonumber(seconds) + tonumber(microseconds) / 1e6
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, asked.most)) do
  redis.call('ZADD', KEYS[1], string.format('%.6f', now + asked.lease), id)
  found[#found + 1] = {id, redis.call('GET', asked.erasures .. id) or ''}
end
return found
"""
)
"""Claims what is due, so that no other process has it in hand for a while. Returns ids, each with its erasure or ''."""

ARCHIVE_DONE = (
    ALWAYS
    + """
-- KEYS: what the archive lacks or must erase; the erasure of this certification; statistics.
-- ARGV: the certification; what is asked, as JSON: erasing; again and value, or shorter: seconds to live by key
local id, asked = ARGV[1], cjson.decode(ARGV[2])
local seconds, microseconds = unpack(redis.call('TIME'))
local now = tonumber(seconds) + tonumber(microseconds) / 1e6
local known = redis.call('ZSCORE', KEYS[1], id)
if asked.erasing then
  if known and asked.again > 0 then
    redis.call('SET', KEYS[2], asked.value)
    redis.call('ZADD', KEYS[1], string.format('%.6f', now + asked.again), id)
    redis.call('HINCRBYFLOAT', KEYS[3], 'archive:erased', 1)
  else
    redis.call('ZREM', KEYS[1], id)
    redis.call('DEL', KEYS[2])
  end
elseif redis.call('EXISTS', KEYS[2]) == 1 then
  -- It was deleted while it was being written: it is erased next.
  redis.call('ZADD', KEYS[1], 0, id)
elseif known then
  for key, ttl in pairs(asked.shorter) do redis.call('EXPIRE', key, ttl) end
  redis.call('ZREM', KEYS[1], id)
  redis.call('HINCRBYFLOAT', KEYS[3], 'archive:written', 1)
end
return {1, ''}
"""
)
"""Settles what a process had in hand; a call that is sent twice counts once."""
