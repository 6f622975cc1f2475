-- The server's clock was set: move every time that something waits for.
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
return 1
