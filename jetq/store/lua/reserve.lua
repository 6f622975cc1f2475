-- Start a gang on all these nodes, or not at all: a member on each of them, with its lease and its message.
--
-- uses  base sure leads room ending parts
-- ARGV  1 epoch  2 term  3 id  4 how many starts it had  5 seed (16 hex)  6 salt 0..1  7 why  then the nodes, the head first
-- gives '' where it was done, else why not: gone (it is not this gang's turn, or the server was started anew and nodes
--       have not said yet what runs), or the node that has no room, or runs a member yet of a start that such a server lost
if not is_sure() or not leads(A[1], A[2]) then return 'gone' end
local id, key, salt = A[3], P .. 'job:' .. A[3], tonumber(A[6])
local j = call('HMGET', key, 'state', 'starts', 'lease', 'prio')
if j[1] ~= 'QUEUED' or j[2] ~= A[4] then return 'gone' end
local slots, gpu, mem = string.match(j[3], '^(%S+) (%S+) (%S+)')
for i = 8, #A do
  local f = look(A[i])
  f.planned = NOTHING  -- who decided has looked at that, and some of it is this gang's
  if not fits(f, slots, gpu, mem) or call('SISMEMBER', P .. 'tasks:' .. A[i], 'gang.member') == 0 then return A[i] end
end
local busy = forgotten_on(id)
if busy then return busy end
local function in_use(start)
  for index = 0, #A - 8 do
    if call('EXISTS', P .. 'job:' .. id .. '.' .. start .. '.' .. index) == 1 then return true end
  end
end
local start = j[2] + 1
while in_use(start) do start = start + 1 end  -- somebody has called other work so
local members, nodes = {}, {}
for i = 8, #A do
  local index = i - 8
  local member = id .. '.' .. start .. '.' .. index
  begin_part(id, member, A[i], A[5] .. '.' .. index, j[3], j[4], salt, { 'kind', 'gang', 'name', 'gang.member', 'index', index })
  members[#members + 1], nodes[#nodes + 1] = member, A[i]
end
call('DEL', P .. 'gang:' .. id)
call('HSET', key, 'state', 'RESERVED', 'starts', start, 'token', A[5], 'reserved_at', stamp(now()), 'nodes', table.concat(nodes, ' '),
  'parts', cjson.encode(members))
call('HDEL', key, 'expected_at', 'not_before', 'stopping', 'progress', 'started_at')
note(id, 'reserved', table.concat(nodes, ' '), A[7])
return ''
