-- Pick a node's unclaimed jobs again. A node that takes nothing (it is stopping) thereby hands them on.
--
-- uses  base room index scarce place ending lose
-- ARGV  1 node  2 epoch  3 why  4 seed  5 salt 0..1  6 ttl (s)
-- gives how many were picked again
if call('HGET', P .. 'node:' .. A[1], 'epoch') ~= A[2] then return 0 end
local count = 0
for _, id in ipairs(call('HKEYS', P .. 'leases:' .. A[1])) do
  if call('HGET', P .. 'job:' .. id, 'state') == 'ASSIGNED' then
    count = count + 1
    lose(id, A[3], false, A[4] .. '.' .. count, tonumber(A[5]), A[6])
  end
end
return count
