-- Mend what the leader found broken, each under the token it was found with.
--
-- uses  base leads room index scarce place ending lose failing
-- ARGV  1 epoch  2 term  3 seed  4 salt 0..1  5 ttl (s)  then 5 a job: id, token, action, node, why
--       lost   nothing runs it any more: picked again, an attempt is charged
--       again  picked again without a charge
--       find   assigned and in nobody's hand: picked again unless its message lies in the node's list
--       stuck  its message lies in a list that nobody reads: taken out and picked again
--       push   waits in a shared queue: its message is pushed again unless it lies there
--       free   a lease of a job that is not there: freed
-- gives per job the state it is in now; '' where nothing was done, or nothing at all where the term is over
if not leads(A[1], A[2]) then return {} end
local salt, out = tonumber(A[4]), {}

-- From the end that is read first: who is looked for has waited for long.
local function lies(queue, id, prio)
  return call('LPOS', list_key(queue, prio), call('GET', P .. 'msg:' .. id) or '', 'RANK', -1)
end

local function mend(i, id, token, action, node, why)
  local j = call('HMGET', P .. 'job:' .. id, 'state', 'token', 'node')
  local state, seed = j[1], A[3] .. '.' .. i
  local live = state == 'ASSIGNED' or state == 'RUNNING' or state == 'FINISHING'
  if action == 'free' then
    if live and j[3] == node then return '' end
    release(id, node, salt)
    return state or 'unknown'
  end
  if j[2] ~= token then return '' end
  local o = order_of(id)
  if action == 'push' then
    if state ~= 'QUEUED' or lies(queue_of(o), id, o.prio) then return '' end
    call('RPUSH', list_key(queue_of(o), o.prio), call('GET', P .. 'msg:' .. id))
    note(id, 'pushed', '', why)
    return state
  end
  if not live or j[3] ~= node then return '' end
  if action == 'find' and (state ~= 'ASSIGNED' or lies(queue_of(o, node), id, o.prio)) then return '' end
  if action == 'stuck' then
    if state ~= 'ASSIGNED' then return '' end
    count_stuck(node)
    call('LREM', list_key(queue_of(o, node), o.prio), 0, call('GET', P .. 'msg:' .. id))
  end
  return lose(id, why, action == 'lost', seed, salt, A[5])
end

for i = 6, #A, 5 do out[#out + 1] = mend(i, unpack(A, i, i + 4)) end
return out
