-- The leader has not heard of a node: it gets no new work (suspect), or it is dead and its jobs are picked again.
--
-- uses  base leads room index scarce place ending lose
-- ARGV  1 epoch  2 term  3 node  4 its epoch  5 the last seq heard of it  6 suspect or dead  7 why  8 seed  9 salt 0..1  10 ttl (s)
-- gives 1, or 0 where the term is over, or the node has beaten, joined or left meanwhile
if not leads(A[1], A[2]) then return 0 end
local node, key, salt = A[3], P .. 'node:' .. A[3], tonumber(A[9])
local n = call('HMGET', key, 'epoch', 'seq', 'state')
if n[1] ~= A[4] or n[2] ~= A[5] or n[3] == 'gone' or n[3] == 'dead' then return 0 end
call('HSET', key, 'state', A[6], 'why', A[7])
rescore(node, salt)
if A[6] == 'dead' then
  count_knowers()
  call('HSET', key, 'running', '[]', 'reserved', '[]')
  lose_all(node, A[7], true, A[8], salt, A[10])
end
return 1
