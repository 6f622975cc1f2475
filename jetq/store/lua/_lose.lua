-- Pick a job again whose run or node is gone.
--
-- uses  base room index scarce place ending
-- Place a job that waited or was placed before, under a new token; or end it, where its message is gone: a script that
-- stumbled over it would stumble at each turn. Returns the state.
local function place_again(id, push, attempts, seed, why, salt, ttl)
  local msg = call('GET', P .. 'msg:' .. id)
  if not msg then
    close(id, nil, 'FAILED', 'error', 'its message is gone from the ledger: ' .. why, true, ttl, salt)
    return 'FAILED'
  end
  return (place(id, adjust_cohort(id, order_of(id)), attempts .. '-' .. seed, msg, push, salt))
end

-- What ran or was to run the job is gone: pick again, or end it after its last attempt. Returns the state.
-- Who was asked to leave its node (evict.lua) pays no attempt for it.
local function lose(id, why, charge, seed, salt, ttl)
  local key = P .. 'job:' .. id
  local j = call('HMGET', key, 'state', 'node', 'attempts', 'max', 'cancel_asked', 'started_at', 'evict', 'outcome', 'expires', 'whole')
  local state, node, attempts, max = j[1], j[2], tonumber(j[3] or 0), tonumber(j[4] or USUAL.max)
  local ran = state == 'RUNNING' or state == 'FINISHING'
  if j[8] then max = 2 * max end  -- its body has ended: to tell of that has as many attempts again
  -- Its gang stops because of what failed first: a node's loss, which is missed seconds after the ranks beside it fail.
  local by_gang = j[7] and j[10] and j[7] == call('HGET', P .. 'job:' .. j[10], 'stopping')
  if j[7] and not by_gang then charge, why = false, j[7] end
  if j[5] then
    close(id, node, 'CANCELLED', 'reason', call('HGET', key, 'reason') or why, true, ttl, salt)
    return 'CANCELLED'
  end
  if j[10] then  -- a part: its gang or stream is what goes on, or not
    local at = charge and call('HGET', P .. 'node:' .. node, 'beat_at')
    call('HSET', key, 'cost', charge and ran and 'infra' or 'none', 'lost_at', at or stamp(now()))
    close(id, node, 'FAILED', 'error', why, false, ttl, salt)
    ring()
    return 'FAILED'
  end
  if charge and ran then
    if j[6] and now() - j[6] > 600 then attempts = 0 end
    attempts = attempts + 1
    call('HSET', key, 'attempts', attempts)
    note(id, 'lost', node, why, true)
    if max > 0 and attempts >= max then
      close(id, node, 'FAILED', 'error', 'gave up after ' .. attempts .. ' attempts: ' .. why, true, ttl, salt)
      return 'FAILED'
    end
  else
    note(id, 'moved', node, why, ran)
  end
  release(id, node, salt)
  spare(id, node)
  call('HDEL', key, 'claimer', 'epoch', 'started_at', 'evict')
  if j[9] then call('ZADD', P .. 'expiry', j[9], id) end  -- its claim took it off
  return place_again(id, 'RPUSH', attempts, seed, why, salt, ttl)
end

-- Everything that a node holds is picked again.
local function lose_all(node, why, charge, seed, salt, ttl)
  for i, id in ipairs(call('HKEYS', P .. 'leases:' .. node)) do
    local j = call('HMGET', P .. 'job:' .. id, 'state', 'node')
    if j[2] == node and (j[1] == 'ASSIGNED' or j[1] == 'RUNNING' or j[1] == 'FINISHING') then
      lose(id, why, charge, seed .. '.' .. i, salt, ttl)
    else
      release(id, node, salt)
    end
  end
end

-- What a node has not begun is picked again. Returns how many jobs that were.
local function lose_unclaimed(node, why, seed, salt, ttl)
  local count = 0
  for _, id in ipairs(call('HKEYS', P .. 'leases:' .. node)) do
    if call('HGET', P .. 'job:' .. id, 'state') == 'ASSIGNED' then
      count = count + 1
      lose(id, why, false, seed .. '.' .. count, salt, ttl)
    end
  end
  return count
end
