-- All members of a start have ended: the gang has, too, or waits for its next start, with its age.
--
-- uses  base leads room ending
-- ARGV  1 epoch  2 term  3 id  4 which start  5 state: SUCCEEDED, FAILED, CANCELLED or QUEUED  6 why
--       7 exit code ('': none)  8 last lines of who failed first (JSON)  9 tally (JSON)  10 not before (s, '': at once)
--       11 the least and 12 the most nodes of the next start ('': as asked)  13 salt 0..1  14 ttl (s)
-- gives 1, or 0 where the term or that start is over, or a member runs
if not leads(A[1], A[2]) then return 0 end
local id, key, state, salt = A[3], P .. 'job:' .. A[3], A[5], tonumber(A[13])
local j = call('HMGET', key, 'state', 'starts', 'parts', 'name', 'started_at', 'nodes', 'cancel_asked', 'reason')
if TERMINAL[j[1]] or j[2] ~= A[4] then return 0 end
for _, member in ipairs(cjson.decode(j[3] or '[]')) do
  local was = call('HGET', P .. 'job:' .. member, 'state')
  if was and not TERMINAL[was] then return 0 end
end
local why = A[6]
if j[7] then state, why = 'CANCELLED', j[8] or A[6] end
if j[6] then note(id, j[5] and 'ran' or 'left', j[6], why, j[5] and true) end
if state == 'QUEUED' then
  call('HSET', key, 'state', 'QUEUED', 'tally', A[9], 'attempts', cjson.decode(A[9]).infra or 0)
  call('HDEL', key, 'parts', 'stopping', 'progress', 'started_at')
  if A[10] ~= '' then call('HSET', key, 'not_before', A[10]) end
  if A[11] ~= '' then call('HSET', key, 'least', A[11], 'most', A[12]) end
  call('DEL', P .. 'gang:' .. id)
  ring()
  return 1
end
if A[7] ~= '' then call('HSET', key, 'exit_code', A[7]) end
if A[8] ~= '' then call('HSET', key, 'tail', A[8]) end
if state == 'SUCCEEDED' then
  local runs = P .. 'gang.runs:' .. j[4]
  call('LPUSH', runs, stamp(math.max(now() - (j[5] or now()), 0.001)))
  call('LTRIM', runs, 0, 1)
  call('EXPIRE', runs, 90 * 86400)
  close(id, nil, state, 'result', '{"code": 0}', false, A[14], salt)
elseif state == 'FAILED' then
  close(id, nil, state, 'error', A[6], false, A[14], salt)
else
  close(id, nil, state, 'reason', why, false, A[14], salt)
end
call('EXPIRE', P .. 'gang:' .. id, 60)
call('EXPIRE', P .. 'gang.lines:' .. id, A[14])
return 1
