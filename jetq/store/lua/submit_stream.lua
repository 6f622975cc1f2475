-- Want a stream, or want it otherwise. Nothing is placed here: the leader keeps it on one node.
--
-- uses  base room ending
-- ARGV  1 id  2 digest  3 name  4 priority  5 spec (JSON)  6 the seats' message, with @jetq-id@ and @jetq-pub@ in it
--       7 the digest that it is to change ('': it is to be new, or has ended)
--       then 2 an address of it that hides credentials: it, and these (JSON; '': those of before stay)
-- gives 'verdict, state, why' with tabs between; verdict: placed, same, changed, done, refused, or raced: read it again
local id, key, secrets = A[1], P .. 'job:' .. A[1], P .. 'secret:' .. A[1]
local old = call('HMGET', key, 'state', 'digest', 'name', 'kind', 'whole', 'cancel_asked', 'owner')
local function answer(verdict, state, why) return verdict .. '\t' .. (state or '') .. '\t' .. (why or '') end
if old[1] and (old[4] ~= 'stream' or old[5]) then
  return answer('refused', old[1], 'the id is in use by other work (' .. (old[5] or old[3] or '?') .. ')')
end
local live = old[1] and not TERMINAL[old[1]]
if live and old[6] then return answer('refused', old[1], 'it is being cancelled; send it again when it has ended') end
if old[1] == 'SUCCEEDED' and old[2] == A[2] then return answer('done', old[1]) end
local news, named = false, {}
for i = 8, #A, 2 do
  local kept = call('HGET', secrets, A[i])
  if A[i + 1] == '' and not kept then
    return answer('refused', old[1], 'the credentials of ' .. A[i] .. ' are hidden, and nobody has given them: send it with them')
  end
  named[A[i]] = true
  news = news or (A[i + 1] ~= '' and A[i + 1] ~= kept)
end
if live and old[2] == A[2] and not news then return answer('same', old[1]) end
if live and old[2] ~= A[2] and old[2] ~= A[7] then return answer('raced', old[1]) end
for _, address in ipairs(call('HKEYS', secrets)) do
  if not named[address] then call('HDEL', secrets, address) end
end
for i = 8, #A, 2 do
  if A[i + 1] ~= '' then call('HSET', secrets, A[i], A[i + 1]) end
end
if not live then call('HDEL', key, 'version') end
call('HSET', key, 'digest', A[2], 'spec', A[5], 'prio', A[4])
call('HINCRBY', key, 'version', 1)
call('HINCRBY', key, 'turn', 1)  -- what was decided about it before is void
call('SET', P .. 'msg:' .. id, A[6])
if live then
  -- How a seat ended is an answer to what was asked of it.
  local was = old[7] and old[7] ~= '' and call('HGET', P .. 'job:' .. old[7], 'state')
  if TERMINAL[was] then call('HSET', key, 'owner', '') end
  ring()
  return answer('changed', old[1])
end
if old[3] ~= A[3] then  -- another camera than it once was: nothing of that one is kept
  call('HDEL', key, 'load')
  call('DEL', P .. 'results:' .. id)
end
local t = now()
call('HSET', key, 'kind', 'stream', 'name', A[3], 'state', 'QUEUED', 'at', stamp(t), 'gen', '0', 'node', '', 'max', '0', 'attempts', '0')
call('HDEL', key, 'finished_at', 'started_at', 'error', 'result', 'reason', 'owner', 'heir', 'parts', 'nodes', 'telemetry', 'told_at', 'history', 'cancel_asked')
call('PERSIST', key)
call('PERSIST', P .. 'results:' .. id)
call('ZADD', P .. 'jobs', micros(t), id)
call('ZADD', P .. 'streams', micros(t), id)
ring()
return answer('placed', 'QUEUED')
