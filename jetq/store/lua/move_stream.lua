-- Do one step of keeping a stream on one live node, if it still is as it was when that was decided.
--
-- uses  base sure leads room ending parts
-- ARGV  1 epoch  2 term  3 id  4 its turn  5 verb  6 node  7 why  8 lease of a new seat "slots gpu mem stream"
--       9 seed (16 hex)  10 salt 0..1  11 ttl (s)
--       start    a new seat on the node owns it; whoever had a seat loses it
--       prepare  a new seat on the node is its heir
--       hand     the heir becomes the owner, the owner ends
--       drop     the heir ends        stop  the owner ends, and nobody follows yet
-- gives 1, or 0 where nothing was done: the term or that turn is over, the node takes nothing new any more, the server was
--       started anew, or it has forgotten a seat that a node still runs
if not is_sure() or not leads(A[1], A[2]) then return 0 end
local id, verb, node, why, salt, key = A[3], A[5], A[6], A[7], tonumber(A[10]), P .. 'job:' .. A[3]
local j = call('HMGET', key, 'state', 'turn', 'owner', 'heir', 'seats', 'prio', 'cancel_asked')
if not j[1] or TERMINAL[j[1]] or j[7] or (j[2] or '0') ~= A[4] then return 0 end
local owner, heir = j[3] or '', j[4] or ''
if (verb == 'start' or verb == 'prepare') and (not look(node).up or forgotten_on(id)) then return 0 end
if verb == 'hand' and heir == '' then return 0 end

local function node_of(seat) return seat ~= '' and call('HGET', P .. 'job:' .. seat, 'node') or '' end

local function leave(seat)
  if seat ~= '' then stop_part(seat, why, A[11], salt) end
end

local function seated()
  local number = (j[5] or 0) + 1
  while call('EXISTS', P .. 'job:' .. id .. '.' .. number) == 1 do number = number + 1 end  -- somebody called other work so
  call('HSET', key, 'seats', number)
  local seat = id .. '.' .. number
  begin_part(id, seat, node, A[9], A[8], j[6], salt, { 'kind', 'stream', 'name', 'stream.run', 'index', number })
  return seat
end

if verb == 'start' then
  leave(owner)
  leave(heir)
  owner, heir = seated(), ''
elseif verb == 'prepare' then
  leave(heir)
  heir = seated()
elseif verb == 'hand' then
  leave(owner)
  owner, heir = heir, ''
elseif verb == 'drop' then
  leave(heir)
  heir = ''
else
  leave(owner)
  owner = ''
end
local parts = {}
for _, seat in ipairs({ owner, heir }) do
  if seat ~= '' then parts[#parts + 1] = seat end
end
local nodes = node_of(owner)
if heir ~= '' then nodes = nodes .. ' ' .. node_of(heir) end
call('HSET', key, 'owner', owner, 'heir', heir, 'parts', parts[1] and cjson.encode(parts) or '[]', 'nodes', nodes, 'turn', (j[2] or 0) + 1)
if owner == '' then
  call('HSET', key, 'state', 'QUEUED')
elseif verb == 'start' or j[1] == 'QUEUED' then
  call('HSET', key, 'state', 'ASSIGNED')
end
note(id, verb, node, why, verb ~= 'drop' and true)
return 1
