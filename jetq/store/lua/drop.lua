-- End an unclaimed job that can never run where its message arrived.
--
-- uses  base room ending
-- ARGV  1 id  2 pub  3 node  4 state  5 why  6 ttl (s)  7 salt 0..1
-- gives 1 ended, 0 it is claimed, elsewhere, ended or published anew
local j = call('HMGET', P .. 'job:' .. A[1], 'state', 'pub', 'node')
if j[2] ~= A[2] or not (j[1] == 'QUEUED' or (j[1] == 'ASSIGNED' and j[3] == A[3])) then return 0 end
close(A[1], j[3], A[4], A[4] == 'FAILED' and 'error' or 'reason', A[5], true, A[6], tonumber(A[7]))
return 1
