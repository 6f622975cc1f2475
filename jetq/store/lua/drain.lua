-- A node shall get no new work: what it has not begun is picked again now, what runs has the grace to end.
--
-- uses  base room index scarce place ending lose
-- ARGV  1 node  2 why  3 grace (s)  4 seed  5 salt 0..1  6 ttl (s)
-- gives 1, or 0 for an unknown node
local node, key, salt = A[1], P .. 'node:' .. A[1], tonumber(A[5])
if call('EXISTS', key) == 0 then return 0 end
call('HSET', key, 'drain', A[3], 'drain_why', A[2])
if call('HGET', key, 'state') == 'up' then
  call('HSET', key, 'state', 'draining')
  rescore(node, salt)
end
lose_unclaimed(node, 'its node drains', A[4], salt, A[6])
return 1
