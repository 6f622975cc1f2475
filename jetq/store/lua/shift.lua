-- The server's clock was set: move every time that something waits for, or that is counted from.
--
-- uses  base leads
-- ARGV  1 epoch  2 term  3 by how much (s)
-- gives 1, or 0 where the term is over
if not leads(A[1], A[2]) then return 0 end
local function move(set, each)
  for _, id in ipairs(call('ZRANGE', P .. set, 0, -1)) do
    local at = call('ZINCRBY', P .. set, A[3], id)
    if each then each(id, at) end
  end
end
move('due')
move('expiry', function(id, at) call('HSET', P .. 'job:' .. id, 'expires', at) end)
move('waiting')
move('tell')
move('gangs', function(id)
  for _, field in ipairs({ 'not_before', 'reserved_at', 'started_at' }) do
    local at = call('HGET', P .. 'job:' .. id, field)
    if at then call('HSET', P .. 'job:' .. id, field, stamp(at + A[3])) end
  end
end)

-- A stamp that is nearer to the old clock than to the new one is moved.
local function restamp(key, field)
  local at = call('HGET', key, field)
  if at and math.abs(now() - at) > math.abs(A[3]) / 2 then call('HSET', key, field, stamp(at + A[3])) end
end
for _, node in ipairs(call('SMEMBERS', P .. 'nodes')) do
  restamp(P .. 'node:' .. node, 'beat_at')
  for _, id in ipairs(call('HKEYS', P .. 'leases:' .. node)) do
    restamp(P .. 'job:' .. id, 'started_at')
    if not call('ZSCORE', P .. 'expiry', id) then  -- claimed: the time counts again where its run is lost
      local at = call('HGET', P .. 'job:' .. id, 'expires')
      if at then call('HSET', P .. 'job:' .. id, 'expires', string.format('%.3f', at + A[3])) end
    end
  end
end
return 1
