-- The ends of jobs, and their history.
--
-- uses  base room
-- Add to a job's history, and give its reason. node: that of a task, or all of a gang's with spaces between;
-- ran: it had begun there.
local function note(id, what, node, why, ran)
  local key = P .. 'job:' .. id
  local h = cjson.decode(call('HGET', key, 'history') or '[]')
  h[#h + 1] = { at = tonumber(stamp(now())), what = what, node = node, why = why, ran = ran or nil }
  while #h > 50 do table.remove(h, 1) end
  call('HSET', key, 'history', cjson.encode(h), 'reason', why)
end

-- Who ran the job need not be killed any more: it has gone, or another has the job. Call it while the record names it.
local function spare(id, node)
  if node and node ~= '' then call('SREM', P .. 'cancel:' .. node, call('HGET', P .. 'job:' .. id, 'claimer') or '') end
end

local function forget_places(id)
  call('ZREM', P .. 'waiting', id)
  call('ZREM', P .. 'due', id)
  call('ZREM', P .. 'expiry', id)
  call('ZREM', P .. 'gangs', id)
  call('ZREM', P .. 'streams', id)
end

-- Whoever leads looks at the gangs now, not at its next turn.
local function ring()
  call('LPUSH', P .. 'bell', '1')
  call('LTRIM', P .. 'bell', 0, 0)
end

-- End a job that waits nowhere: it runs, or comes from close. untold: Celery still has to hear of it.
local function seal(id, node, state, field, text, untold, ttl, salt)
  local key = P .. 'job:' .. id
  release(id, node, salt)
  call('HSET', key, 'state', state, field, text, 'finished_at', stamp(now()))
  call('HDEL', key, 'outcome', 'evict')
  call('EXPIRE', key, ttl)
  if untold then
    call('ZADD', P .. 'tell', now(), id)
    call('EXPIRE', P .. 'msg:' .. id, ttl)
  else
    call('DEL', P .. 'msg:' .. id)
  end
end

-- End a job, wherever it is.
local function close(id, node, state, field, text, untold, ttl, salt)
  forget_places(id)
  call('DEL', P .. 'secret:' .. id)
  call('EXPIRE', P .. 'results:' .. id, ttl)
  spare(id, node)
  seal(id, node, state, field, text, untold, ttl, salt)
end

