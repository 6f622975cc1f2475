-- Which cohorts a node serves, and which indexes it is in.
--
-- uses  base room

-- Does a node with these labels and n = { _, slots, gpu, mem } carry, and know, what cohort c asks for?
local function serves(node, labels, n, c)
  for _, label in ipairs(c.labels) do
    if not labels[label] then return false end
  end
  if c.task and call('SISMEMBER', P .. 'tasks:' .. node, c.task) == 0 then return false end
  return n[2] + 0 >= c.slots and n[3] + 0 >= c.gpu and n[4] + 0 >= c.mem
end

-- A view names the boards that it has an index of: a pick looks at these.
local function add_board(name, view, board)
  for i = 2, #view do
    if view[i] == board then return end
  end
  view[#view + 1] = board
  call('HSET', P .. 'routes', name, cjson.encode(view))
end

-- Work out which cohorts a node serves and which indexes it is in; returns its cohorts.
local function reindex(node, salt)
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
    if serves(node, labels, n, c) then
      known[all[i]] = c
      cohorts[#cohorts + 1] = all[i]
    end
  end
  all = call('HGETALL', P .. 'routes')
  for i = 1, #all, 2 do
    local strategy, cohort = string.match(all[i], '^([^=?%s]%S*) (%S+)$')
    local c, rate = strategy and known[cohort], rates[strategy or '']
    if c and rate then
      local view = cjson.decode(all[i + 1])
      add_board(all[i], view, n[5])
      views[#views + 1] = { 'free:' .. all[i] .. ':' .. n[5], view[1], rate, c.slots, c.gpu, c.mem, strategy }
    end
  end
  table.sort(cohorts)
  call('HSET', key, 'views', #views > 0 and cjson.encode(views) or '[]', 'cohorts', #cohorts > 0 and cjson.encode(cohorts) or '[]')
  rescore(node, salt)
  return cohorts
end

