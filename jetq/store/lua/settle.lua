-- End a claimed job and free its lease; or leave it WAITING, when its id was handed on (Task.replace).
--
-- uses  base sure room ending failing
-- ARGV  1 id  2 token  3 claimer  4 state  5 result (JSON or '')  6 error, or why its result is not kept  7 ttl (s)  8 salt 0..1
--       then, where a result is to be stored for Celery: 9 its key  10 payload  11 ttl (s)
-- gives 1 done, or done before under this token; 2 cancelled meanwhile; 0 the job belongs to another assignment;
--       -1 the server was started anew: ask again in a moment
if not is_sure() then return -1 end
local id, key, state, salt = A[1], P .. 'job:' .. A[1], A[4], tonumber(A[8])
local j = call('HMGET', key, 'state', 'token', 'claimer', 'node', 'name', 'started_at', 'cancel_asked', 'evict', 'whole')
local mine = j[3] == A[3]
local live = j[1] == 'RUNNING' or j[1] == 'FINISHING'
if mine and live and j[7] then
  close(id, j[4], 'CANCELLED', 'reason', call('HGET', key, 'reason') or '', true, A[7], salt)
  return 2
end
if not mine or j[2] ~= A[2] then return 0 end
if j[1] == state then return 1 end
if not live or (state == 'WAITING' and j[1] ~= 'RUNNING') then return 0 end
if j[8] then spare(id, j[4]) end
if state == 'WAITING' then
  release(id, j[4], salt)
  note(id, 'replaced', j[4], 'replaced by another task that carries its id', true)
  call('HSET', key, 'state', 'WAITING', 'node', '', 'replaced', '1')
  call('HDEL', key, 'evict')
  return 1
end
local board = call('HGET', P .. 'node:' .. j[4], 'board')
if j[9] then
  ring()  -- a member: how fast its node works, and whether it works well, is not to be told from its gang
elseif state == 'SUCCEEDED' and board and j[6] then
  local runs = P .. 'runs:' .. j[5] .. ':' .. board
  if call('LPUSH', runs, stamp(math.max(now() - j[6], 0.001))) > 40 then call('LTRIM', runs, 0, 19) end
  call('SADD', P .. 'fresh', j[5])
elseif state == 'FAILED' then
  call('HINCRBY', P .. 'node:' .. j[4], 'failed', 1)
end
call('HINCRBY', P .. 'node:' .. j[4], 'ended', 1)
if state == 'FAILED' and not j[9] then count_failure(j[4]) end
if A[9] then
  call('SETEX', A[9], A[11], A[10])
  call('PUBLISH', A[9], A[10])
end
if A[6] ~= '' and state == 'SUCCEEDED' then
  call('HSET', key, 'reason', A[6], 'unkept', '1')
elseif A[6] ~= '' then
  call('HSET', key, 'error', A[6])
end
seal(id, j[4], state, 'result', A[5], false, A[7], salt)  -- what runs waits nowhere
return 1
