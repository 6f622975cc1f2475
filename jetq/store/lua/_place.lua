-- Pick a node and give it a job.
--
-- uses  base room

-- Does a shared queue that this node serves hold a job of the same or higher priority?
local function backlog(node, prio)
  for _, c in ipairs(cjson.decode(call('HGET', P .. 'node:' .. node, 'cohorts') or '[]')) do
    for _, step in ipairs({ 0, 3, 6 }) do
      if step <= tonumber(prio) and call('LLEN', list_key('shared:' .. c, step)) > 0 then return true end
    end
  end
  return false
end

-- Read once, for all jobs of an order, which indexes a pick looks at, and what has been learned of its task.
-- Returns whether its view is there, the version of what tasks ask for, and whether its task is scarce.
local function find_route(o)
  local view = o.strategy .. ' ' .. o.cohort
  local r = call('HMGET', P .. 'routes', view, '=' .. o.name, 'declared', '?' .. o.name)
  o.indexes = nil
  if not r[1] then return false, r[3], r[4] end
  local boards, speeds = cjson.decode(r[1]), r[2] and o.how == 'learned' and cjson.decode(r[2]) or {}
  o.indexes, o.speeds = {}, {}
  for i = 2, #boards do
    o.indexes[i - 1] = P .. 'free:' .. view .. ':' .. boards[i]
    o.speeds[i - 1] = speeds[boards[i]] or 1
  end
  return true, r[3], r[4]
end

-- The best node with a free slot, or nil. o: name, strategy, how, cohort, prio
local function pick(o)
  if not o.indexes and not find_route(o) then return nil end
  local best, node
  for i, index in ipairs(o.indexes) do
    local t = call('ZRANGE', index, 0, 0, 'WITHSCORES')
    if t[1] then
      local s = t[2] / o.speeds[i]
      if not best or s < best then best, node = s, t[1] end
    end
  end
  if not node then return nil end
  o.clear = o.clear or call('ZCARD', P .. 'waiting') == 0  -- until a job of this order has to wait
  if not o.clear and backlog(node, o.prio) then return nil end
  if o.how == 'stride' then
    local rate = cjson.decode(call('HGET', P .. 'node:' .. node, 'rates'))[o.strategy]
    call('HSET', P .. 'pass:' .. o.strategy, node, string.format('%.17g', best + rate), '*', string.format('%.17g', best))
  end
  return node
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
    hold(id, node, o.lease, salt)
  else
    o.clear = nil
    call('ZADD', P .. 'waiting', micros(t), id)
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

