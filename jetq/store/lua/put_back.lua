-- Return a popped message that was not started to the list its job belongs to now.
--
-- uses  base room place
-- ARGV  1 id  2 pub
-- gives 1 put back, 0 the job no longer waits for this message
local j = call('HMGET', P .. 'job:' .. A[1], 'state', 'pub', 'node', 'cohort', 'prio', 'kind')
if j[2] ~= A[2] or (j[1] ~= 'ASSIGNED' and j[1] ~= 'QUEUED') then return 0 end
local queue = queue_of({ cohort = j[4] or USUAL.cohort, kind = j[6] or USUAL.kind }, j[1] == 'ASSIGNED' and j[3] or nil)
call('RPUSH', list_key(queue, j[5] or USUAL.prio), call('GET', P .. 'msg:' .. A[1]))
return 1
