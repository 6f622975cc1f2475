-- What a gang or a stream has on its nodes: jobs of their own, which name the whole that they are part of.
--
-- uses  base room ending

-- The node that says it runs a part of this whole which a server that lost its last writes has forgotten; nil: none does.
-- It hears so, and ends it: no other part begins before.
local function forgotten_on(id)
  for _, name in ipairs(call('SMEMBERS', P .. 'nodes')) do
    local n = call('HMGET', P .. 'node:' .. name, 'state', 'running')
    local told = n[1] ~= 'dead' and n[1] ~= 'gone' and n[2] and string.find(n[2], id .. '.', 1, true)
    for _, run in ipairs(told and cjson.decode(n[2]) or {}) do
      if string.sub(run[1], 1, #id + 1) == id .. '.' and call('EXISTS', P .. 'job:' .. run[1]) == 0 then return name end
    end
  end
end

-- End a part: at once where it is unclaimed, else its node is asked to.
local function stop_part(part, why, ttl, salt)
  local key = P .. 'job:' .. part
  local j = call('HMGET', key, 'state', 'node', 'claimer', 'evict')
  if j[1] == 'ASSIGNED' then
    close(part, j[2], 'CANCELLED', 'reason', why, false, ttl, salt)
  elseif j[1] == 'RUNNING' and not j[4] then
    call('HSET', key, 'evict', why)
    call('SADD', P .. 'cancel:' .. j[2], j[3])
  end
end

local function stop_parts(id, why, ttl, salt)
  for _, part in ipairs(cjson.decode(call('HGET', P .. 'job:' .. id, 'parts') or '[]')) do stop_part(part, why, ttl, salt) end
end

-- A part begins on a node: its record, its lease and its message, made from the whole's. what: further fields.
local function begin_part(id, part, node, pub, lease, prio, salt, what)
  local t = now()
  call('HSET', P .. 'job:' .. part, 'state', 'ASSIGNED', 'whole', id, 'node', node, 'token', '0-' .. pub, 'pub', pub, 'gen', '0',
    'digest', '', 'at', stamp(t), 'assigned_at', stamp(t), 'prio', prio, 'lease', lease, 'max', '1', unpack(what))
  hold(part, node, lease, salt)
  local msg = string.gsub(call('GET', P .. 'msg:' .. id), '@jetq%-(%a+)@', { id = part, pub = pub })
  call('SET', P .. 'msg:' .. part, msg)
  call('LPUSH', list_key('processes.' .. node, prio), msg)
end
