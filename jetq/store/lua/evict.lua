-- The grace of a draining node is over: its lanes are asked to kill what runs, and nobody is charged an attempt.
--
-- uses  base
-- ARGV  1 node  2 epoch  3 why
-- gives how many jobs were asked; 0 also where the node may work again
local node, count = A[1], 0
local n = call('HMGET', P .. 'node:' .. node, 'epoch', 'drain')
if n[1] ~= A[2] or not n[2] then return 0 end
for _, id in ipairs(call('HKEYS', P .. 'leases:' .. node)) do
  local key = P .. 'job:' .. id
  local j = call('HMGET', key, 'state', 'cancel_asked', 'evict', 'claimer')
  if j[1] == 'RUNNING' and not j[2] and not j[3] then
    call('HSET', key, 'evict', A[3])
    call('SADD', P .. 'cancel:' .. node, j[4])
    count = count + 1
  end
end
return count
