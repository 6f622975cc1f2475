-- What the leader looks at: all nodes with what they hold, and the jobs that have waited longest in shared queues.
--
-- uses  base leads
-- ARGV  1 epoch  2 term  3 how many waiting jobs
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
for _, id in ipairs(call('ZRANGE', P .. 'waiting', 0, A[3] - 1)) do
  waiting[#waiting + 1] = { id, call('HGET', P .. 'job:' .. id, 'token') }
end
return { nodes, waiting }
