-- Seats of streams hold what they were measured to cost, and people are told why streams wait.
--
-- uses  base leads room
-- ARGV  1 epoch  2 term  3 salt 0..1  4 how many leases  then 3 a lease: seat, node, lease  then 2 a stream: id, why
-- gives 1, or 0 where the term is over
if not leads(A[1], A[2]) then return 0 end
local last = 4 + 3 * A[4]
for i = 5, last, 3 do
  if call('HEXISTS', P .. 'leases:' .. A[i + 1], A[i]) == 1 then
    hold(A[i], A[i + 1], A[i + 2], tonumber(A[3]))
    call('HSET', P .. 'job:' .. A[i], 'lease', A[i + 2])
  end
end
for i = last + 1, #A, 2 do
  local key = P .. 'job:' .. A[i]
  local state = call('HGET', key, 'state')
  if state and not TERMINAL[state] then call('HSET', key, 'reason', A[i + 1]) end
end
return 1
