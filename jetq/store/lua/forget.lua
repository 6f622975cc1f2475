-- Strike a node off. What it still held is picked again.
--
-- uses  base room index scarce place ending lose
-- ARGV  1 node  2 dead (s)  3 seed  4 salt 0..1  5 ttl (s)
-- gives 1 forgotten, 0 unknown, -1 it is alive
local node, key, salt = A[1], P .. 'node:' .. A[1], tonumber(A[4])
local n = call('HMGET', key, 'state', 'beat_at', 'views')
if not n[1] then return 0 end
if n[1] ~= 'gone' and n[1] ~= 'dead' and math.abs(now() - n[2]) < tonumber(A[2]) then return -1 end
call('HSET', key, 'state', 'gone', 'kit', '')
call('DEL', P .. 'tasks:' .. node)
count_knowers()
lose_all(node, 'its node was forgotten', true, A[3], salt, A[5])
leave_indexes(node, n[3])
for _, route in ipairs(call('HKEYS', P .. 'routes')) do
  local strategy = view_of(route)
  if strategy then call('HDEL', P .. 'pass:' .. strategy, node) end
end
call('SREM', P .. 'nodes', node)
call('DEL', key, P .. 'leases:' .. node, P .. 'cancel:' .. node)
for _, prio in ipairs({ 0, 3, 6 }) do
  call('DEL', list_key('node.' .. node, prio), list_key('processes.' .. node, prio))
end
return 1
