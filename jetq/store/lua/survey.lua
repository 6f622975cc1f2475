-- What the leader looks at: all nodes with what they hold, and the jobs that have waited longest in shared queues.
--
-- uses  base leads
-- ARGV  1 epoch  2 term  3 how many waiting jobs  4 which part of the others too (it wraps around)
--       5 how many jobs a part has where the shared lists hold fewer messages than jobs wait; else it has 3
-- gives {nodes, waiting}, or nothing where the term is over
--       node: {name, epoch, seq, state, slots, running (JSON), reserved (JSON), held};  held: {id, state, token, claimer, node, kind}
--       waiting: {id, token}
if not leads(A[1], A[2]) then return {} end
local nodes, waiting = {}, {}
for _, name in ipairs(call('SMEMBERS', P .. 'nodes')) do
  local n = call('HMGET', P .. 'node:' .. name, 'epoch', 'seq', 'state', 'slots', 'running', 'reserved')
  local held = {}
  for _, id in ipairs(call('HKEYS', P .. 'leases:' .. name)) do
    local j = call('HMGET', P .. 'job:' .. id, 'state', 'token', 'claimer', 'node', 'kind')
    held[#held + 1] = { id, unpack(j) }
  end
  nodes[#nodes + 1] = { name, n[1], n[2], n[3], n[4], n[5], n[6], held }
end
local function add(from, to)
  for _, id in ipairs(call('ZRANGE', P .. 'waiting', from, to)) do
    waiting[#waiting + 1] = { id, call('HGET', P .. 'job:' .. id, 'token') }
  end
end
add(0, A[3] - 1)
local count, oldest = call('ZCARD', P .. 'waiting'), tonumber(A[3])
if count > oldest then
  local lying = 0
  for _, cohort in ipairs(call('HKEYS', P .. 'cohorts')) do
    for _, step in ipairs({ 0, 3, 6 }) do lying = lying + call('LLEN', list_key('shared:' .. cohort, step)) end
  end
  local size = lying < count and A[5] or oldest  -- a message that lies there twice hides one that is missing
  local from = oldest + size * (A[4] % math.ceil((count - oldest) / size))
  add(from, from + size - 1)
end
return { nodes, waiting }
