-- What every script of the ledger shares: picking a node, leases, moving and ending jobs.
--
-- KEYS  1 the cluster's prefix; every other key is built from it (store/keys.py spells them)
local call, A, P = redis.call, ARGV, KEYS[1]
local TERMINAL = { SUCCEEDED = true, FAILED = true, CANCELLED = true }
local STEPS = { 0, 3, 6 }
-- What a record leaves out, because most jobs have it.
local USUAL = { kind = 'task', strategy = 'dynamic', how = 'learned', cohort = 'any', prio = '3', lease = '1 0 0 task', max = '3' }
local USUAL_FIELDS = { 'kind', 'strategy', 'how', 'cohort', 'prio', 'lease', 'max' }

local function now()
  local t = call('TIME')
  return tonumber(t[1]) + t[2] / 1000000
end

local function stamp(t) return string.format('%.3f', t) end

local function list_key(queue, prio)
  if tonumber(prio) == 0 then return P .. queue end
  return P .. queue .. '\006\022' .. prio
end

-- Sum the live leases of a node: slots, gpu, mem, and the slots held by streams and gangs.
local function usage(node)
  local used, gpu, mem, long = 0, 0, 0, 0
  for _, v in ipairs(call('HVALS', P .. 'leases:' .. node)) do
    if v == '1 0 0 task' then
      used = used + 1
    else
      local s, g, m, kind = string.match(v, '^(%S+) (%S+) (%S+) (%S+)$')
      used, gpu, mem = used + s, gpu + g, mem + m
      if kind ~= 'task' then long = long + s end
    end
  end
  return used, gpu, mem, long
end

-- Put a node where its free room belongs in every index it is part of, or take it out. salt (0..1) breaks ties.
local function rescore(node, salt)
  local n = call('HMGET', P .. 'node:' .. node, 'state', 'slots', 'gpu', 'mem', 'planned', 'net', 'views')
  if not n[7] then return end
  local used, gpu, mem = usage(node)
  local room = n[2] - used - (n[5] or 0)
  for _, v in ipairs(cjson.decode(n[7])) do
    local key, how, rate, slots, g, m = v[1], v[2], v[3], v[4], v[5], v[6]
    if n[1] == 'up' and room >= slots and n[3] - gpu >= g and n[4] - mem >= m then
      local score
      if how == 'stride' then
        -- Who was full or away goes on at the others' turn: it may not catch up on what it missed.
        local pass = call('HMGET', P .. 'pass:' .. v[7], node, '*')
        score = math.max(pass[1] or 0, pass[2] or 0)
      elseif how == 'learned' then
        score = (n[2] + used + 1) * rate * (1 + salt * 1e-6) + n[6]
      else
        score = (used + 1) * rate * (1 + salt * 1e-6)
      end
      call('ZADD', P .. key, score, node)
    else
      call('ZREM', P .. key, node)
    end
  end
end

local function serves(labels, n, c)
  for _, label in ipairs(c.labels) do
    if not labels[label] then return false end
  end
  return n[2] + 0 >= c.slots and n[3] + 0 >= c.gpu and n[4] + 0 >= c.mem
end

-- Work out which cohorts a node serves and which indexes it is in; returns its cohorts.
local function index_node(node)
  local key = P .. 'node:' .. node
  local n = call('HMGET', key, 'labels', 'slots', 'gpu', 'mem', 'board', 'rates', 'views')
  if n[7] then
    for _, v in ipairs(cjson.decode(n[7])) do call('ZREM', P .. v[1], node) end
  end
  local labels, cohorts, views, rates = {}, {}, {}, cjson.decode(n[6])
  for label in string.gmatch(n[1], '%S+') do labels[label] = true end
  local all, known = call('HGETALL', P .. 'cohorts'), {}
  for i = 1, #all, 2 do
    local c = cjson.decode(all[i + 1])
    if serves(labels, n, c) then
      known[all[i]] = c
      cohorts[#cohorts + 1] = all[i]
    end
  end
  all = call('HGETALL', P .. 'views')
  for i = 1, #all, 2 do
    local strategy, cohort = string.match(all[i], '^(%S+) (%S+)$')
    local c, rate = known[cohort], rates[strategy]
    if c and rate then
      views[#views + 1] = { 'free:' .. all[i] .. ':' .. n[5], all[i + 1], rate, c.slots, c.gpu, c.mem, strategy }
    end
  end
  table.sort(cohorts)
  call('HSET', key, 'views', #views > 0 and cjson.encode(views) or '[]', 'cohorts', #cohorts > 0 and cjson.encode(cohorts) or '[]')
  return cohorts
end

local function reindex(node, salt)
  local cohorts = index_node(node)
  rescore(node, salt)
  return cohorts
end

-- Does a shared queue that this node serves hold a job of the same or higher priority?
local function backlog(node, prio)
  if call('ZCARD', P .. 'waiting') == 0 then return false end
  for _, c in ipairs(cjson.decode(call('HGET', P .. 'node:' .. node, 'cohorts') or '[]')) do
    for _, step in ipairs(STEPS) do
      if step <= tonumber(prio) and call('LLEN', list_key('shared:' .. c, step)) > 0 then return true end
    end
  end
  return false
end

-- The best node with a free slot, or nil. o: name, strategy, how, cohort, prio
local function pick(o)
  if not o.boards then  -- once for all jobs of an order
    o.boards, o.speeds = call('SMEMBERS', P .. 'boards'), {}
    if o.how == 'learned' and #o.boards > 1 then o.speeds = call('HMGET', P .. 'speed:' .. o.name, unpack(o.boards)) end
  end
  local boards, speeds = o.boards, o.speeds
  local best, node
  for i, board in ipairs(boards) do
    local t = call('ZRANGE', P .. 'free:' .. o.strategy .. ' ' .. o.cohort .. ':' .. board, 0, 0, 'WITHSCORES')
    if t[1] then
      local s = t[2] / (speeds[i] or 1)
      if not best or s < best then best, node = s, t[1] end
    end
  end
  if not node or backlog(node, o.prio) then return nil end
  if o.how == 'stride' then
    local rate = cjson.decode(call('HGET', P .. 'node:' .. node, 'rates'))[o.strategy]
    call('HSET', P .. 'pass:' .. o.strategy, node, string.format('%.17g', best + rate), '*', string.format('%.17g', best))
  end
  return node
end

local function release(id, node, salt)
  if node and node ~= '' and call('HDEL', P .. 'leases:' .. node, id) == 1 then rescore(node, salt) end
end

local function queue_of(o, node)
  if not node then return 'shared:' .. o.cohort end
  return (o.kind == 'task' and 'node.' or 'processes.') .. node
end

-- Give a job to a node or to its shared queue: lease, record and message together.
-- push: LPUSH (new work) or RPUSH (work that has waited before: it is next). t: now, where the caller knows it.
-- record: more fields of the record, written in the same go. Returns state and node.
local function place(id, o, token, msg, push, salt, t, record)
  local node = pick(o)
  t = t or now()
  if node then
    call('HSET', P .. 'leases:' .. node, id, o.lease)
    rescore(node, salt)
  else
    call('ZADD', P .. 'waiting', t, id)
  end
  local state = node and 'ASSIGNED' or 'QUEUED'
  call('HSET', P .. 'job:' .. id, 'state', state, 'node', node or '', 'token', token, 'assigned_at', stamp(t), unpack(record or {}))
  call(push, list_key(queue_of(o, node), o.prio), msg)
  return state, node
end

-- What place needs to know, read back from a record, which leaves out what is usual.
local function order_of(id)
  local v, o = call('HMGET', P .. 'job:' .. id, 'name', unpack(USUAL_FIELDS)), {}
  o.name = v[1]
  for i, field in ipairs(USUAL_FIELDS) do o[field] = v[i + 1] or USUAL[field] end
  return o
end

local function note(id, what, node, why)
  local key = P .. 'job:' .. id
  local h = cjson.decode(call('HGET', key, 'history') or '[]')
  h[#h + 1] = { at = tonumber(stamp(now())), what = what, node = node, why = why }
  while #h > 50 do table.remove(h, 1) end
  call('HSET', key, 'history', cjson.encode(h), 'reason', why)
end

local function forget_places(id)
  call('ZREM', P .. 'waiting', id)
  call('ZREM', P .. 'due', id)
  call('ZREM', P .. 'expiry', id)
end

-- End a job. untold: Celery still has to hear of it.
local function close(id, node, state, field, text, untold, ttl, salt)
  local key = P .. 'job:' .. id
  release(id, node, salt)
  forget_places(id)
  if node and node ~= '' then call('SREM', P .. 'cancel:' .. node, id) end
  call('HSET', key, 'state', state, field, text, 'finished_at', stamp(now()))
  call('HDEL', key, 'outcome')
  call('EXPIRE', key, ttl)
  if untold then
    call('ZADD', P .. 'tell', now(), id)
    call('EXPIRE', P .. 'msg:' .. id, ttl)
  else
    call('DEL', P .. 'msg:' .. id)
  end
end

-- What ran or was to run the job is gone: pick again, or end it after its last attempt. Returns the state.
local function lose(id, why, charge, seed, salt, ttl)
  local key = P .. 'job:' .. id
  local j = call('HMGET', key, 'state', 'node', 'attempts', 'max', 'cancel_asked', 'started_at')
  local state, node, attempts, max = j[1], j[2], tonumber(j[3] or 0), tonumber(j[4] or USUAL.max)
  if j[5] then
    close(id, node, 'CANCELLED', 'reason', call('HGET', key, 'reason') or why, true, ttl, salt)
    return 'CANCELLED'
  end
  if charge and state ~= 'ASSIGNED' then
    if j[6] and now() - j[6] > 600 then attempts = 0 end
    attempts = attempts + 1
    call('HSET', key, 'attempts', attempts)
    note(id, 'lost', node, why)
    if max > 0 and attempts >= max then
      close(id, node, 'FAILED', 'error', 'gave up after ' .. attempts .. ' attempts: ' .. why, true, ttl, salt)
      return 'FAILED'
    end
  else
    note(id, 'moved', node, why)
  end
  release(id, node, salt)
  call('SREM', P .. 'cancel:' .. node, id)
  call('HDEL', key, 'claimer', 'epoch', 'started_at')
  return (place(id, order_of(id), attempts .. '-' .. seed, call('GET', P .. 'msg:' .. id), 'RPUSH', salt))
end

