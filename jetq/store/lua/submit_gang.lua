-- Take a gang into the queue. Nothing is placed here: the leader starts it on all its nodes at once.
--
-- uses  base room ending
-- ARGV  1 id  2 digest  3 name  4 priority  5 spec (JSON)  6 lease on each node "slots gpu mem gang"
--       7 the members' message, with @jetq-id@ and @jetq-pub@ in it  8 '1' = streams may be moved for it
--       9 '1' = members keep their folders  10 the id of its workdir ('': none)  11 ttl of that (s)
-- gives 'verdict, state, why' with tabs between; verdict: placed, same, done, refused
local id, key = A[1], P .. 'job:' .. A[1]
local old = call('HMGET', key, 'state', 'digest', 'name')
if old[1] then
  if old[2] == A[2] then return (TERMINAL[old[1]] and 'done' or 'same') .. '\t' .. old[1] .. '\t' end
  return 'refused\t' .. old[1] .. '\tthe id is in use by other work (' .. (old[3] or '?') .. ')'
end
if A[10] ~= '' and call('EXPIRE', P .. 'blob:' .. A[10], A[11]) == 0 then
  return 'refused\t\tits workdir is not in the ledger any more; submit it again'
end
local t = now()
call('HSET', key, 'kind', 'gang', 'name', A[3], 'state', 'QUEUED', 'at', stamp(t), 'digest', A[2], 'gen', '0', 'node', '',
  'prio', A[4], 'spec', A[5], 'lease', A[6], 'max', '0', 'attempts', '0', 'starts', '0', 'over', A[8], 'keep', A[9])
call('SET', P .. 'msg:' .. id, A[7])
call('ZADD', P .. 'jobs', micros(t), id)
call('ZADD', P .. 'gangs', micros(t), id)
ring()
return 'placed\tQUEUED\t'
