-- Place up to 200 jobs of one order: pick a node, take the lease, write the record, push the message.
--
-- uses  base room index scarce place ending
-- ARGV  1 seed (16 hex)  2 salt 0..1  3 name  4 kind  5 strategy  6 how  7 cohort  8 cohort (JSON)  9 priority
--       10 lease "slots gpu mem kind"  11 max attempts  12 '1' = wait for a node that serves the cohort
--       13 the version of `declared` that the producer has read ('-': it need not be today's)
--       then 7 a job: id, pub, digest, generation, envelope, delay (s or ''), expires (s or '')
-- gives per job 'verdict, state, node, why' with tabs between; verdict: placed, same, done, refused
--       or nothing at all, where `declared` has changed: read it and ask again
local o = { name = A[3], kind = A[4], strategy = A[5], how = A[6], cohort = A[7], prio = A[9], lease = A[10], max = A[11] }

local function anybody(cohort)
  local c = cjson.decode(cohort)
  for _, node in ipairs(call('SMEMBERS', P .. 'nodes')) do
    local n = call('HMGET', P .. 'node:' .. node, 'labels', 'slots', 'gpu', 'mem')
    local labels = {}
    for label in string.gmatch(n[1] or '', '%S+') do labels[label] = true end
    if n[1] and serves(node, labels, n, c) then return true end
  end
  return false
end

local found, declared, scarce = find_route(o)
if A[13] ~= '-' and A[13] ~= (declared or '') then return {} end
local definition = A[8]
if scarce or (A[12] == '1' and not is_known(o.name)) then
  o.cohort, definition = with_task(o, definition)
  found = find_route(o)
end
if not found then
  if o.cohort ~= 'any' and A[12] ~= '1' and call('HEXISTS', P .. 'cohorts', o.cohort) == 0 and not anybody(definition) then
    local out = {}
    for i = 14, #A, 7 do out[#out + 1] = 'refused\t\t\tnobody ' .. o.cohort end
    return out
  end
  open_view(o, definition, tonumber(A[2]))
end
seen = {}  -- from here on no node's facts change

local function answer_of(verdict, state, node, why)
  return verdict .. '\t' .. state .. '\t' .. (node or '') .. '\t' .. (why or '')
end

-- May a known id be published again? nil: yes, as a new generation; else the answer.
local function again(old, digest, generation)
  if TERMINAL[old[1]] then return answer_of('done', old[1], old[4]) end
  local was = tonumber(old[3])
  if generation > was and old[1] ~= 'FINISHING' then return nil end
  if generation == was and digest == old[2] and not old[7] then return answer_of('same', old[1], old[4]) end
  return answer_of('refused', old[1], old[4], 'the id is in use by other work (' .. (old[6] or '?') .. ')')
end

local same = { 'name', o.name }  -- what the records of this order share
for _, field in ipairs(USUAL_FIELDS) do
  if o[field] ~= USUAL[field] then
    same[#same + 1] = field
    same[#same + 1] = o[field]
  end
end

-- Is this id taken? In the same go: does nobody wait? Then pick need not look.
local function is_taken(key)
  if o.clear then return call('EXISTS', key) == 1 end
  o.clear = call('EXISTS', key, P .. 'waiting') == 0
  return not o.clear and call('EXISTS', key) == 1
end

local t, out, messages, fresh, nothing = now(), {}, {}, {}, {}
for i = 14, #A, 7 do
  local id, pub, digest, generation, msg, delay, expires = unpack(A, i, i + 6)
  local key, salt, old = P .. 'job:' .. id, (A[2] * (i + 7)) % 1, nothing
  if is_taken(key) then
    old = call('HMGET', key, 'state', 'digest', 'gen', 'node', 'attempts', 'name', 'replaced', 'expires', 'at', 'cancel_asked', 'evict')
  end
  local answer = old[1] and again(old, digest, tonumber(generation))
  if answer then
    out[#out + 1] = answer
  else
    local token = (old[5] or '0') .. '-' .. A[1] .. (i > 14 and '.' .. i or '')
    if old[1] then
      if old[1] == 'RUNNING' and not old[10] then note(id, 'again', old[4], 'its task asked to run again', true) end
      release(id, old[4], salt)
      forget_places(id)
      if old[10] or old[11] then spare(id, old[4]) end
      call('HDEL', key, 'claimer', 'epoch', 'started_at', 'replaced', 'outcome', 'evict', unpack(USUAL_FIELDS))
    else
      fresh[#fresh + 1] = micros(t)
      fresh[#fresh + 1] = id
    end
    messages[#messages + 1] = P .. 'msg:' .. id
    messages[#messages + 1] = msg
    local record = { 'at', old[9] or stamp(t), 'pub', pub, 'digest', digest, 'gen', generation, unpack(same) }
    local late = expires ~= '' and t + expires or old[8]
    if late then
      call('HSET', key, 'expires', string.format('%.3f', late))
      call('ZADD', P .. 'expiry', late, id)
    end
    if old[10] then -- cancelled while the body that publishes it again still ran: it is late at once (due.lua)
      call('HSET', key, 'state', 'WAITING', 'node', '', 'token', token, unpack(record))
      call('ZADD', P .. 'expiry', t, id)
      out[#out + 1] = answer_of('placed', 'WAITING')
    elseif delay ~= '' then
      call('HSET', key, 'state', 'WAITING', 'node', '', 'token', token, unpack(record))
      call('ZADD', P .. 'due', t + delay, id)
      out[#out + 1] = answer_of('placed', 'WAITING')
    else
      local state, node = place(id, o, token, msg, 'LPUSH', salt, t, record)
      out[#out + 1] = answer_of('placed', state, node)
    end
  end
end
if fresh[1] then call('ZADD', P .. 'jobs', unpack(fresh)) end
if messages[1] then call('MSET', unpack(messages)) end
return out
