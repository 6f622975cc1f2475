-- Pick a node's unclaimed jobs again. A node that takes nothing (it is stopping) thereby hands them on.
--
-- uses  base room index scarce place ending lose
-- ARGV  1 node  2 epoch  3 why  4 seed  5 salt 0..1  6 ttl (s)
-- gives how many were picked again
if call('HGET', P .. 'node:' .. A[1], 'epoch') ~= A[2] then return 0 end
return lose_unclaimed(A[1], A[3], A[4], tonumber(A[5]), A[6])
