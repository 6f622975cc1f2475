-- A job's message has arrived at a node that does not know its task: pick it again where it is known, else end it.
--
-- uses  base room index scarce place ending lose
-- ARGV  1 id  2 pub  3 node  4 seed  5 salt 0..1  6 ttl (s)
-- gives the state it is in now; '' it is claimed, elsewhere, ended or published anew
local id, node, salt = A[1], A[3], tonumber(A[5])
local j = call('HMGET', P .. 'job:' .. id, 'state', 'pub', 'node', 'name')
if j[2] ~= A[2] or not (j[1] == 'QUEUED' or (j[1] == 'ASSIGNED' and j[3] == node)) then return '' end
if call('SREM', P .. 'tasks:' .. node, j[4]) == 1 then
  call('HSET', P .. 'node:' .. node, 'kit', node .. ' ' .. A[4])  -- its own, until it says anew what it has loaded
  count_knowers()
  reindex(node, salt)
end
local why = 'node ' .. node .. ' does not know task ' .. j[4]
if is_scarce(j[4]) then
  call('ZREM', P .. 'waiting', id)
  return lose(id, why, false, A[4], salt, A[6])
end
close(id, j[3], 'FAILED', 'error', why .. ', nor does any other node', true, A[6], salt)
return 'FAILED'
