-- What a gang has on its nodes.
--
-- uses  base room ending

-- End what the members of a gang run: unclaimed ones at once, the others are asked to.
local function stop_members(id, why, ttl, salt)
  for _, member in ipairs(cjson.decode(call('HGET', P .. 'job:' .. id, 'members') or '[]')) do
    local key = P .. 'job:' .. member
    local j = call('HMGET', key, 'state', 'node', 'claimer', 'evict')
    if j[1] == 'ASSIGNED' then
      close(member, j[2], 'CANCELLED', 'reason', why, false, ttl, salt)
    elseif j[1] == 'RUNNING' and not j[4] then
      call('HSET', key, 'evict', why)
      call('SADD', P .. 'cancel:' .. j[2], j[3])
    end
  end
end

