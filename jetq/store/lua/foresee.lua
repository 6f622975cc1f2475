-- What the leader foresees: what is kept free on nodes, and when gangs are expected to start, and why not yet.
--
-- uses  base leads room
-- ARGV  1 epoch  2 term  3 salt 0..1  4 how many nodes
--       then 2 a node: name, kept (JSON: [slots, gpu, mem, until (s)], '': nothing)
--       then 3 a gang: id, expected (s, '': nobody can say), why
-- gives 1, or 0 where the term is over
if not leads(A[1], A[2]) then return 0 end
local last = 4 + 2 * A[4]
for i = 5, last, 2 do
  local key = P .. 'node:' .. A[i]
  if A[i + 1] == '' then
    call('HDEL', key, 'planned')
  elseif call('EXISTS', key) == 1 then
    call('HSET', key, 'planned', A[i + 1])
  end
  rescore(A[i], tonumber(A[3]))
end
for i = last + 1, #A, 3 do
  local key = P .. 'job:' .. A[i]
  if call('HGET', key, 'state') == 'QUEUED' then
    call('HSET', key, 'reason', A[i + 2])
    if A[i + 1] == '' then call('HDEL', key, 'expected_at') else call('HSET', key, 'expected_at', A[i + 1]) end
  end
end
return 1
