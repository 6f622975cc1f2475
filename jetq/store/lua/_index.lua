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

-- The strategy and the cohort of a view, by its field in routes; nil: the field is none.
local function view_of(field) return string.match(field, '^([^=?%s]%S*) (%S+)$') end

-- Take a node out of every index that it is part of. views: as reindex has written them
local function leave_indexes(node, views)
  for i, v in ipairs(cjson.decode(views or '[]')) do
    if i > 1 then call('ZREM', P .. v[1], node) end
  end
end

-- Work out which cohorts a node serves and which indexes it is in; returns its cohorts.
local function reindex(node, salt)
  local key = P .. 'node:' .. node
  local n = call('HMGET', key, 'labels', 'slots', 'gpu', 'mem', 'board', 'rates', 'views', 'net')
  leave_indexes(node, n[7])
  -- What rescore has to know of a node, in one field: its facts (they change in join and beat, which come here), its views.
  local views = { { slots = n[2] + 0, gpu = n[3] + 0, mem = n[4] + 0, net = n[8] + 0 } }
  local labels, cohorts, rates = {}, {}, cjson.decode(n[6])
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
    local strategy, cohort = view_of(all[i])
    local c, rate = strategy and known[cohort], rates[strategy or '']
    if c and rate then
      local view = cjson.decode(all[i + 1])
      add_board(all[i], view, n[5])
      views[#views + 1] = { 'free:' .. all[i] .. ':' .. n[5], view[1], rate, c.slots, c.gpu, c.mem, strategy }
    end
  end
  table.sort(cohorts)
  call('HSET', key, 'views', cjson.encode(views), 'cohorts', #cohorts > 0 and cjson.encode(cohorts) or '[]')
  rescore(node, salt)
  return cohorts
end

