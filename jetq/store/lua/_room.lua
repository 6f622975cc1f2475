-- Leases: how much room a node has, and where that puts it in the indexes.
--
-- uses  base

-- What this script has read of nodes, by name. Only a script that changes no node's facts sets it (to {}): to read each
-- node once, however many jobs it places. Where it is nil, every look is a fresh one.
local seen

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

-- What is kept free on a node for gangs that wait: slots, gpu, mem, and the time (s) until which others may have it.
local NOTHING = { 0, 0, 0, 0 }

-- A node's facts and its load (used, used_gpu, used_mem); a node that nobody knows has no views.
local function look(node)
  local f = seen and seen[node]
  if not f then
    local n = call('HMGET', P .. 'node:' .. node, 'views', 'state', 'planned')
    local views = cjson.decode(n[1] or '[{}]')
    f = table.remove(views, 1)  -- slots, gpu, mem, net: see reindex
    f.views, f.up = views, n[2] == 'up'
    f.planned = n[3] and cjson.decode(n[3]) or NOTHING
    if seen then seen[node] = f end
  end
  if not f.used then f.used, f.used_gpu, f.used_mem = usage(node) end
  return f
end

-- Is there room for so much on a node that look gave?
local function fits(f, slots, gpu, mem)
  local kept = f.planned
  return f.up and f.used + slots + kept[1] <= f.slots and f.used_gpu + gpu + kept[2] <= f.gpu
    and f.used_mem + mem + kept[3] <= f.mem
end

-- Scores are whole numbers of this much (stride: of 1): a fraction would cost the server more to read than the rest of a pick.
local UNIT = 1e10

-- Put a node where its free room belongs in every index it is part of, or take it out. salt (0..1) breaks ties.
local function rescore(node, salt)
  local f = look(node)
  for _, v in ipairs(f.views) do
    local key, how, rate = P .. v[1], v[2], v[3]
    if fits(f, v[4], v[5], v[6]) then
      local score
      if how == 'stride' then
        -- Who was full or away goes on at the others' turn: it may not catch up on what it missed.
        local pass = call('HMGET', P .. 'pass:' .. v[7], node, '*')
        score = math.max(pass[1] or 0, pass[2] or 0)
      else
        score = (f.used + 1) * rate * (1 + salt * 1e-6)
        if how == 'learned' then score = score + f.slots * rate * (1 + salt * 1e-6) + f.net end
        score = math.floor(score * UNIT)
      end
      call('ZADD', key, score, node)
    else
      call('ZREM', key, node)
    end
  end
end

-- Let a job hold what its lease says.
local function hold(id, node, lease, salt)
  local new = call('HSET', P .. 'leases:' .. node, id, lease)
  local f = seen and seen[node]
  if f and f.used then f.used = new == 1 and lease == '1 0 0 task' and f.used + 1 or nil end
  rescore(node, salt)
end

local function release(id, node, salt)
  if not node or node == '' or call('HDEL', P .. 'leases:' .. node, id) == 0 then return end
  if seen and seen[node] then seen[node].used = nil end
  rescore(node, salt)
end

