-- An epoch ends by plan: the node takes nothing more, and what it still held is picked again without a charge.
--
-- uses  base room index scarce place ending lose
-- ARGV  1 node  2 epoch  3 seed  4 salt 0..1  5 ttl (s)
-- gives 1, or 0 where another epoch is live
local node, key, salt = A[1], P .. 'node:' .. A[1], tonumber(A[4])
if call('HGET', key, 'epoch') ~= A[2] then return 0 end
call('HSET', key, 'state', 'gone', 'running', '[]', 'reserved', '[]')
count_knowers()
rescore(node, salt)
if call('HGET', P .. 'leader', 'epoch') == A[2] then call('HSET', P .. 'leader', 'until', 0) end
lose_all(node, 'its node stopped', false, A[3], salt, A[5])
return 1
