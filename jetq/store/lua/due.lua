-- Publish what is due and expire what is late; trim the list of jobs. Running it twice does nothing more.
--
-- uses  base room index scarce place ending lose
-- ARGV  1 limit  2 seed  3 salt 0..1  4 ttl (s)  5 the time it should be by the caller's own clock (s, '': not known)
-- gives 1, or 0 where the server's clock has just been set: whoever leads moves all times first (shift.lua)
local t, salt = now(), tonumber(A[3])
if A[5] ~= '' and math.abs(t - A[5]) > 1 then return 0 end
for i, id in ipairs(call('ZRANGEBYSCORE', P .. 'due', '-inf', t, 'LIMIT', 0, A[1])) do
  local j = call('HMGET', P .. 'job:' .. id, 'state', 'attempts')
  if j[1] == 'WAITING' then
    place_again(id, 'LPUSH', j[2] or '0', A[2] .. '.' .. i, 'it was due', salt, A[4])
  end
  call('ZREM', P .. 'due', id)  -- last: a script that fails half-way is not undone
end
for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'expiry', '-inf', t, 'LIMIT', 0, A[1])) do
  local j = call('HMGET', P .. 'job:' .. id, 'state', 'node', 'cancel_asked', 'reason')
  if j[1] == 'WAITING' or j[1] == 'QUEUED' or j[1] == 'ASSIGNED' then
    local why = j[3] and j[4] or 'expired before a node was free'
    close(id, j[2], 'CANCELLED', 'reason', why, true, A[4], salt)
  end
  call('ZREM', P .. 'expiry', id)
end
for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'jobs', '-inf', t - A[4], 'LIMIT', 0, A[1])) do
  if call('EXISTS', P .. 'job:' .. id) == 0 then call('ZREM', P .. 'jobs', id) else break end
end
return 1
