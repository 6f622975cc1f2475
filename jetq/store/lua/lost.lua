-- What ran a job is gone.
--
-- ARGV  1 id  2 node  3 claimer ('' = whoever holds it there)  4 why  5 '1' = charge an attempt  6 seed  7 salt  8 ttl (s)
-- gives the state it is in now; '' where this node (or claimer) does not hold it
local j = call('HMGET', P .. 'job:' .. A[1], 'state', 'node', 'claimer')
if j[2] ~= A[2] or (A[3] ~= '' and j[3] ~= A[3]) then return '' end
if j[1] ~= 'ASSIGNED' and j[1] ~= 'RUNNING' and j[1] ~= 'FINISHING' then return '' end
return lose(A[1], A[4], A[5] == '1', A[6], tonumber(A[7]), A[8])
