-- Leases: how much room a node has, and where that puts it in the indexes.
--
-- uses  base
-- Sum the live leases of a node: slots, gpu, mem, and the slots held by streams and gangs.
local function usage(node)
  local used, gpu, mem, long = 0, 0, 0, 0
  for _, v in ipairs(call('HVALS', P .. 'leases:' .. node)) do
    if v == '1 0 0 task' then
      used = used + 1
    else
      local s, g, m, kind = string.match(v, '^(%S+) (%S+) (%S+) (%S+)$')
      used, gpu, mem = used + s, gpu + g, mem + m
      if kind ~= 'task' then long = long + s end
    end
  end
  return used, gpu, mem, long
end

-- Put a node where its free room belongs in every index it is part of, or take it out. salt (0..1) breaks ties.
local function rescore(node, salt)
  local n = call('HMGET', P .. 'node:' .. node, 'state', 'slots', 'gpu', 'mem', 'planned', 'net', 'views')
  if not n[7] then return end
  local used, gpu, mem = usage(node)
  local room = n[2] - used - (n[5] or 0)
  for _, v in ipairs(cjson.decode(n[7])) do
    local key, how, rate, slots, g, m = v[1], v[2], v[3], v[4], v[5], v[6]
    if n[1] == 'up' and room >= slots and n[3] - gpu >= g and n[4] - mem >= m then
      local score
      if how == 'stride' then
        -- Who was full or away goes on at the others' turn: it may not catch up on what it missed.
        local pass = call('HMGET', P .. 'pass:' .. v[7], node, '*')
        score = math.max(pass[1] or 0, pass[2] or 0)
      elseif how == 'learned' then
        score = (n[2] + used + 1) * rate * (1 + salt * 1e-6) + n[6]
      else
        score = (used + 1) * rate * (1 + salt * 1e-6)
      end
      call('ZADD', P .. key, score, node)
    else
      call('ZREM', P .. key, node)
    end
  end
end

local function release(id, node, salt)
  if node and node ~= '' and call('HDEL', P .. 'leases:' .. node, id) == 1 then rescore(node, salt) end
end

