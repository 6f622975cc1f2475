-- Keep what a node says of itself, unless its epoch is over or a newer beat of it is here.
--
-- uses  base room index failing
-- ARGV  1 node  2 epoch  3 seq  4 state  5 rates (JSON)  6 net  7 weight  8 trim  9 metrics (JSON)
--       10 running (JSON: [id, claimer]...)  11 reserved (JSON: ids)  12 salt
-- gives {1, cohorts (JSON), used slots, slots of streams and gangs, ended, failed, grace of a drain (s, '': none),
--       claimers to kill...}, or {0, why: unknown, replaced, dead or gone} where the epoch is over
local node, key = A[1], P .. 'node:' .. A[1]
local old = call('HMGET', key, 'epoch', 'seq', 'state', 'drain', 'failing')
if not old[1] then return { 0, 'unknown' } end
if old[1] ~= A[2] then return { 0, 'replaced' } end
if old[3] == 'dead' or old[3] == 'gone' then return { 0, old[3] } end
local state = old[4] and A[4] == 'up' and 'draining' or A[4]
if old[5] and may_try(old[5]) then
  call('HDEL', key, 'failing')
elseif old[5] and state == 'up' then
  state = 'failing'
end
if tonumber(A[3]) > tonumber(old[2]) then
  call('HSET', key, 'seq', A[3], 'state', state, 'rates', A[5], 'net', A[6], 'weight', A[7], 'trim', A[8],
    'metrics', A[9], 'running', A[10], 'reserved', A[11], 'beat_at', stamp(now()))
end
local cohorts = reindex(node, tonumber(A[12]))
local used, _, _, long = usage(node)
local n = call('HMGET', key, 'ended', 'failed')
return { 1, cjson.encode(cohorts), tostring(used), tostring(long), n[1], n[2], old[4] or '',
  unpack(call('SMEMBERS', P .. 'cancel:' .. node)) }
