-- Take or renew the leader's lease. A term is one reign.
--
-- uses  base sure
-- ARGV  1 node  2 epoch  3 lease (s)
-- gives {term (0: another leads), time (s), '1' where the server was started anew and nobody has made sure of it yet},
--       and where another leads: its node, that node's epoch and last seq
local key, t, lease = P .. 'leader', now(), tonumber(A[3])
local l = call('HMGET', key, 'epoch', 'term', 'until', 'node')
local left = tonumber(l[3] or 0) - t
local holds = left > 0 and left <= 2 * lease  -- more than it can be: the clock was set back
if not call('HGET', P .. 'broker', 'run_id') then make_sure() end
local unsure = is_sure() and '' or '1'
if holds and l[1] ~= A[2] then
  local n = call('HMGET', P .. 'node:' .. l[4], 'epoch', 'seq')
  return { 0, stamp(t), unsure, l[4], n[1] or '', n[2] or '' }
end
local term = tonumber(l[2] or 0)
if not holds then term = term + 1 end
call('HSET', key, 'node', A[1], 'epoch', A[2], 'term', term, 'until', stamp(t + lease))
return { term, stamp(t), unsure }
