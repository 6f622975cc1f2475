-- Cancel a job: at once where nothing runs; else take its token away and ask its lane to kill it.
--
-- uses  base room ending parts
-- ARGV  1 id  2 reason  3 seed  4 salt 0..1  5 ttl (s)
-- A part stands for its gang or stream: one is not cancelled without the others.
-- gives the state it is in now ('' unknown id); RUNNING means the lane has been asked; FINISHING: it came too late
local id = call('HGET', P .. 'job:' .. A[1], 'whole') or A[1]
local key = P .. 'job:' .. id
local j = call('HMGET', key, 'state', 'node', 'attempts', 'cancel_asked', 'claimer')
if not j[1] then return '' end
if TERMINAL[j[1]] or j[1] == 'FINISHING' or j[4] then return j[1] end
if call('HEXISTS', key, 'parts') == 1 then
  call('HSET', key, 'cancel_asked', '1', 'reason', A[2])
  stop_parts(id, A[2], A[5], tonumber(A[4]))
  ring()
  return j[1]
end
if j[1] == 'RUNNING' then
  call('HSET', key, 'cancel_asked', '1', 'token', (j[3] or '0') .. '-' .. A[3], 'reason', A[2])
  call('SADD', P .. 'cancel:' .. j[2], j[5])
  return 'RUNNING'
end
close(id, j[2], 'CANCELLED', 'reason', A[2], true, A[5], tonumber(A[4]))
return 'CANCELLED'
