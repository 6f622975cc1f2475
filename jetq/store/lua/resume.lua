-- A drained node may get work again; its next beat says that it is up.
--
-- uses  base
-- ARGV  1 node
-- gives 1 (also where it did not drain), or 0 for an unknown node
if call('EXISTS', P .. 'node:' .. A[1]) == 0 then return 0 end
call('HDEL', P .. 'node:' .. A[1], 'drain', 'drain_why')
return 1
