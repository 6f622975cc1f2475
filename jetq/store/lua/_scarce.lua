-- Scarce tasks: those that not every live node knows. To know the task is then one more thing a job needs of its node.
--
-- uses  base room index

-- The cohort that asks for the same, whatever the task.
local function asked_cohort(cohort)
  local asked = string.gsub(cohort, '%+?@task=.*$', '')
  return asked == '' and 'any' or asked
end

local function is_scarce(name) return call('HEXISTS', P .. 'routes', '?' .. name) == 1 end

local function is_known(name)
  for _, node in ipairs(call('SMEMBERS', P .. 'nodes')) do
    if call('SISMEMBER', P .. 'tasks:' .. node, name) == 1 then return true end
  end
  return false
end

-- Cohort and definition (JSON) of a job's needs and its task. asked: definition without the task; nil: the ledger has it.
local function with_task(o, asked)
  local cohort = asked_cohort(o.cohort)
  local c = cjson.decode(asked or call('HGET', P .. 'cohorts', cohort) or call('HGET', P .. 'cohorts', o.cohort))
  c.task = o.name
  local mark = '@task=' .. string.gsub(o.name, '[%s%%]', function(x) return string.format('%%%02X', string.byte(x)) end)
  return cohort == 'any' and mark or cohort .. '+' .. mark, cjson.encode(c)
end

-- Make the index of a strategy and a cohort, unless it is there.
local function open_view(o, definition, salt)
  call('HSET', P .. 'cohorts', o.cohort, definition)
  if call('HSETNX', P .. 'routes', o.strategy .. ' ' .. o.cohort, cjson.encode({ o.how })) == 0 then return end
  for _, node in ipairs(call('SMEMBERS', P .. 'nodes')) do reindex(node, salt) end
end

-- Let a job that is to be placed again ask for its task exactly where that is scarce now, or where nobody knows it.
local function adjust_cohort(id, o)
  local was, definition = o.cohort, nil
  local asks = asked_cohort(was) ~= was
  if is_scarce(o.name) or (asks and not is_known(o.name)) then
    o.cohort, definition = with_task(o)
  elseif asks then
    local c = cjson.decode(call('HGET', P .. 'cohorts', was) or call('HGET', P .. 'cohorts', asked_cohort(was)))
    o.cohort, c.task = asked_cohort(was), nil
    definition = cjson.encode(c)
  else
    return o
  end
  open_view(o, definition, 0.5)
  if o.cohort ~= was then call('HSET', P .. 'job:' .. id, 'cohort', o.cohort) end
  return o
end

-- Forget the cohorts of tasks that are no longer scarce. Only while no job waits: a message in a hand names its cohort.
local function tidy_cohorts()
  local all, old = call('HGETALL', P .. 'cohorts'), {}
  for i = 1, #all, 2 do
    local c = cjson.decode(all[i + 1])
    if c.task and not is_scarce(c.task) then old[#old + 1] = { all[i], c } end
  end
  if #old == 0 or call('ZCARD', P .. 'waiting') > 0 then return end
  for _, pair in ipairs(old) do
    local cohort, c = pair[1], pair[2]
    c.task = nil
    call('HSETNX', P .. 'cohorts', asked_cohort(cohort), cjson.encode(c))
    call('HDEL', P .. 'cohorts', cohort)
    for _, view in ipairs(call('HKEYS', P .. 'routes')) do
      local _, its = view_of(view)
      if its == cohort then call('HDEL', P .. 'routes', view) end
    end
  end
  for _, node in ipairs(call('SMEMBERS', P .. 'nodes')) do reindex(node, 0.5) end
end

-- Count again who knows what: a node has come, gone, or loaded something else. Nodes that know the same share a kit.
local function count_knowers()
  local live, kits, knowers = 0, {}, {}
  for _, node in ipairs(call('SMEMBERS', P .. 'nodes')) do
    local n = call('HMGET', P .. 'node:' .. node, 'state', 'kit')
    local kit = n[2] and n[2] ~= '' and n[2] or node
    kits[kit] = kits[kit] or { node = node, live = 0 }
    if n[1] and n[1] ~= 'gone' and n[1] ~= 'dead' then
      live, kits[kit].live = live + 1, kits[kit].live + 1
    end
  end
  for _, kit in pairs(kits) do
    for _, name in ipairs(call('SMEMBERS', P .. 'tasks:' .. kit.node)) do
      knowers[name] = (knowers[name] or 0) + kit.live
    end
  end
  for _, field in ipairs(call('HKEYS', P .. 'routes')) do
    if string.sub(field, 1, 1) == '?' then call('HDEL', P .. 'routes', field) end
  end
  for name, count in pairs(knowers) do
    if count < live then call('HSET', P .. 'routes', '?' .. name, count) end
  end
  tidy_cohorts()
end

