-- A start of a gang shall end: its members are asked to stop, each on its node.
--
-- uses  base sure leads room ending parts
-- ARGV  1 epoch  2 term  3 id  4 which start  5 why  6 salt 0..1  7 ttl (s)
-- gives 1, or 0 where the term or that start is over, or the server was started anew: its members may have begun
if not is_sure() or not leads(A[1], A[2]) then return 0 end
local key = P .. 'job:' .. A[3]
local j = call('HMGET', key, 'state', 'starts', 'parts')
if TERMINAL[j[1]] or j[2] ~= A[4] or not j[3] then return 0 end
call('HSET', key, 'stopping', A[5])
stop_parts(A[3], A[5], A[7], tonumber(A[6]))
return 1
