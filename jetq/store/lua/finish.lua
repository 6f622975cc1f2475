-- Record how a body ended, before callbacks, chain or chord hear of it.
--
-- uses  base sure
-- ARGV  1 id  2 token  3 claimer  4 outcome (JSON)
-- gives 1 recorded (or already so by the same claimer), 0 the job belongs to another assignment,
--       -1 the server was started anew: ask again in a moment
if not is_sure() then return -1 end
local key = P .. 'job:' .. A[1]
local j = call('HMGET', key, 'state', 'token', 'claimer')
if j[2] ~= A[2] or j[3] ~= A[3] then return 0 end
if j[1] == 'FINISHING' then return 1 end
if j[1] ~= 'RUNNING' then return 0 end
call('HSET', key, 'state', 'FINISHING', 'outcome', A[4])
return 1
