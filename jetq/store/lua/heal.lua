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
local function lies(list, msg) return msg and call('LPOS', list, msg, 'RANK', -1) end

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
  local o, msg = order_of(id), call('GET', P .. 'msg:' .. id)
  local list = list_key(queue_of(o, action ~= 'push' and node or nil), o.prio)
  if action == 'push' then
    if state ~= 'QUEUED' or lies(list, msg) then return '' end
    if not msg then return lose(id, why, false, seed, salt, A[5]) end
    call('RPUSH', list, msg)
    note(id, 'pushed', '', why)
    return state
  end
  if not live or j[3] ~= node then return '' end
  if action == 'find' and (state ~= 'ASSIGNED' or lies(list, msg)) then return '' end
  if action == 'stuck' then
    if state ~= 'ASSIGNED' then return '' end
    count_stuck(node)
    call('LREM', list, 0, msg or '')
  end
  return lose(id, why, action == 'lost', seed, salt, A[5])
end

for i = 6, #A, 5 do out[#out + 1] = mend(i, unpack(A, i, i + 4)) end
return out
