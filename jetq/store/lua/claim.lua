-- Let a child run a job whose message it holds, or say why not.
--
-- uses  base sure room ending
-- ARGV  1 id  2 pub  3 node  4 epoch  5 claimer  6 seed (16 hex)  7 salt 0..1  8 ttl (s)
-- gives {verdict, token, attempts, outcome or why}; verdict: run, finish (body is done, outcome kept), full, refused,
--       unsure (the server was started anew, or its clock may have been set: ask again in a moment)
local id, pub, node, claimer, key = A[1], A[2], A[3], A[5], P .. 'job:' .. A[1]
local j = call('HMGET', key, 'state', 'pub', 'node', 'token', 'attempts', 'claimer', 'expires', 'lease', 'outcome', 'cohort', 'prio')
local state, token, attempts = j[1], j[4], tonumber(j[5] or 0)
local lease, cohort, prio = j[8] or USUAL.lease, j[10] or USUAL.cohort, j[11] or USUAL.prio

local function granted() return { j[9] and 'finish' or 'run', token, attempts, j[9] or '' } end
local function refused(why) return { 'refused', '', attempts, why } end

-- Is there room for this job? What is kept for a gang is there for who is gone before it starts.
local function may_have(node, slots, gpu, mem)
  local f = look(node)
  if fits(f, slots, gpu, mem) then return true end
  if f.planned == NOTHING then return false end
  local n = call('HGET', P .. 'node:' .. node, 'board')
  local runs = call('LRANGE', P .. 'runs:' .. call('HGET', key, 'name') .. ':' .. n, 0, 19)
  table.sort(runs, function(a, b) return a + 0 < b + 0 end)
  local lasts = runs[1] and runs[math.ceil(#runs / 2)]
  if not lasts or now() + lasts > f.planned[4] then return false end
  f.planned = NOTHING
  return fits(f, slots, gpu, mem)
end

if not is_sure() then return { 'unsure', '', 0, '' } end
if not state then return refused('unknown') end
if state == 'RUNNING' or state == 'FINISHING' then
  if j[6] == claimer and j[3] == node then return granted() end
  return refused('claimed')
end
if TERMINAL[state] then return refused('ended') end
if j[2] ~= pub then return refused('stale message') end
local n = call('HMGET', P .. 'node:' .. node, 'epoch', 'state')
if n[1] ~= A[4] or n[2] == 'dead' or n[2] == 'gone' then return refused('old epoch') end
if j[7] and now() > tonumber(j[7]) then
  local led_until = call('HGET', P .. 'leader', 'until')
  if led_until and led_until - now() < -2 then return { 'unsure', '', 0, '' } end  -- nobody leads: was the clock set?
  close(id, j[3], 'CANCELLED', 'reason', 'expired before a node was free', true, A[8], tonumber(A[7]))
  return refused('expired')
end
if state == 'QUEUED' then
  seen = {}  -- no node's facts change here
  if not may_have(node, string.match(lease, '^(%S+) (%S+) (%S+)')) then
    call('RPUSH', list_key('shared:' .. cohort, prio), call('GET', P .. 'msg:' .. id))
    return { 'full', '', attempts, '' }
  end
  hold(id, node, lease, tonumber(A[7]))
  call('ZREM', P .. 'waiting', id)
elseif state ~= 'ASSIGNED' or j[3] ~= node then
  return refused('moved')
end
if j[7] then call('ZREM', P .. 'expiry', id) end
token = attempts .. '-' .. A[6]  -- never the one of the pick: a server that lost its last writes would grant that twice
call('HSET', key, 'state', 'RUNNING', 'node', node, 'epoch', A[4], 'claimer', claimer, 'token', token, 'started_at', stamp(now()))
return granted()
