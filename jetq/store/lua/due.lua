-- Publish what is due, expire what is late, and hand out what Celery was not told of. Any agent may run it, at any time.
--
-- uses  base room place ending
-- ARGV  1 limit  2 seed  3 salt 0..1  4 ttl (s)
-- gives a list of {id, state, reason or error, envelope}: each is handed out once in 10 s until somebody says it was told
local t, salt = now(), tonumber(A[3])
for i, id in ipairs(call('ZRANGEBYSCORE', P .. 'due', '-inf', t, 'LIMIT', 0, A[1])) do
  call('ZREM', P .. 'due', id)
  local j = call('HMGET', P .. 'job:' .. id, 'state', 'attempts')
  if j[1] == 'WAITING' then
    place(id, order_of(id), (j[2] or '0') .. '-' .. A[2] .. '.' .. i, call('GET', P .. 'msg:' .. id), 'LPUSH', salt)
  end
end
for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'expiry', '-inf', t, 'LIMIT', 0, A[1])) do
  call('ZREM', P .. 'expiry', id)
  local j = call('HMGET', P .. 'job:' .. id, 'state', 'node', 'cancel_asked', 'reason')
  if j[1] == 'WAITING' or j[1] == 'QUEUED' or j[1] == 'ASSIGNED' then
    local why = j[3] and j[4] or 'expired before a node was free'
    close(id, j[2], 'CANCELLED', 'reason', why, true, A[4], salt)
  end
end
for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'jobs', '-inf', t - A[4], 'LIMIT', 0, A[1])) do
  if call('EXISTS', P .. 'job:' .. id) == 0 then call('ZREM', P .. 'jobs', id) else break end
end
local out = {}
for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'tell', '-inf', t - 1, 'LIMIT', 0, A[1])) do
  local j = call('HMGET', P .. 'job:' .. id, 'state', 'error', 'reason')
  local msg = call('GET', P .. 'msg:' .. id)
  if j[1] and msg then
    call('ZADD', P .. 'tell', t + 9, id)
    out[#out + 1] = { id, j[1], j[1] == 'FAILED' and j[2] or j[3] or '', msg }
  else
    call('ZREM', P .. 'tell', id)
  end
end
return out
