-- Place up to 200 jobs of one order: pick a node, take the lease, write the record, push the message.
--
-- ARGV  1 seed (16 hex)  2 salt 0..1  3 name  4 kind  5 strategy  6 how  7 cohort  8 cohort (JSON)  9 priority
--       10 lease "slots gpu mem kind"  11 max attempts  12 '1' = wait for a node that serves the cohort
--       then 7 a job: id, pub, digest, generation, envelope, delay (s or ''), expires (s or '')
-- gives per job {verdict, state, node, why}; verdict: placed, same, done, refused
local o = { name = A[3], kind = A[4], strategy = A[5], how = A[6], cohort = A[7], prio = A[9], lease = A[10] }
local view = o.strategy .. ' ' .. o.cohort

local function anybody(cohort)
  local c = cjson.decode(cohort)
  for _, node in ipairs(call('SMEMBERS', P .. 'nodes')) do
    local n = call('HMGET', P .. 'node:' .. node, 'labels', 'slots', 'gpu', 'mem')
    local labels = {}
    for label in string.gmatch(n[1] or '', '%S+') do labels[label] = true end
    if n[1] and serves(labels, n, c) then return true end
  end
  return false
end

if call('HEXISTS', P .. 'views', view) == 0 then
  if o.cohort ~= 'any' and A[12] ~= '1' and call('HEXISTS', P .. 'cohorts', o.cohort) == 0 and not anybody(A[8]) then
    local out = {}
    for i = 13, #A, 7 do out[#out + 1] = { 'refused', '', '', 'nobody' } end
    return out
  end
  call('HSET', P .. 'cohorts', o.cohort, A[8])
  call('HSET', P .. 'views', view, o.how)
  for _, node in ipairs(call('SMEMBERS', P .. 'nodes')) do reindex(node, tonumber(A[2])) end
end

-- May a known id be published again? nil: yes, as a new generation; else the answer.
local function again(old, digest, generation)
  if TERMINAL[old[1]] then return { 'done', old[1], old[4] or '', '' } end
  local was = tonumber(old[3])
  if generation > was and old[1] ~= 'FINISHING' then return nil end
  if generation == was and digest == old[2] and not old[7] then return { 'same', old[1], old[4] or '', '' } end
  return { 'refused', old[1], old[4] or '', 'the id is in use by other work (' .. (old[6] or '?') .. ')' }
end

local out = {}
for i = 13, #A, 7 do
  local id, pub, digest, generation, msg, delay, expires = unpack(A, i, i + 6)
  local key = P .. 'job:' .. id
  local salt = (A[2] * (i + 7)) % 1
  local old = call('HMGET', key, 'state', 'digest', 'gen', 'node', 'attempts', 'name', 'replaced', 'expires')
  local answer = old[1] and again(old, digest, tonumber(generation))
  if answer then
    out[#out + 1] = answer
  else
    local token, t = (old[5] or '0') .. '-' .. A[1] .. (i > 13 and '.' .. i or ''), now()
    if old[1] then
      release(id, old[4], salt)
      forget_places(id)
      call('HDEL', key, 'claimer', 'epoch', 'started_at', 'replaced', 'outcome')
    else
      call('ZADD', P .. 'jobs', t, id)
    end
    call('SET', P .. 'msg:' .. id, msg)
    call('HSET', key, 'name', o.name, 'kind', o.kind, 'pub', pub, 'digest', digest, 'gen', generation,
      'strategy', o.strategy, 'how', o.how, 'cohort', o.cohort, 'prio', o.prio, 'lease', o.lease, 'max', A[11],
      'at', old[1] and call('HGET', key, 'at') or stamp(t))
    local late = expires ~= '' and t + expires or old[8]
    if late then
      call('HSET', key, 'expires', string.format('%.3f', late))
      call('ZADD', P .. 'expiry', late, id)
    end
    if delay ~= '' then
      call('HSET', key, 'state', 'WAITING', 'node', '', 'token', token)
      call('ZADD', P .. 'due', t + delay, id)
      out[#out + 1] = { 'placed', 'WAITING', '', '' }
    else
      local state, node = place(id, o, token, msg, 'LPUSH', salt)
      out[#out + 1] = { 'placed', state, node or '', '' }
    end
  end
end
return out
