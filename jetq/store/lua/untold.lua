-- Hand out the ended jobs that Celery was not told of.
--
-- uses  base
-- ARGV  1 limit
-- gives a list of {id, state, reason or error, envelope}: each is handed out once in 10 s until somebody says it was told
local t = now()
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
