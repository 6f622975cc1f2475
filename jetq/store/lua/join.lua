-- Make an epoch the live one of its node; what the old epoch held is picked again.
--
-- uses  base room index scarce place ending lose
-- ARGV  1 node  2 identity  3 epoch  4 slots  5 gpu  6 mem (bytes)  7 board  8 labels (space separated)  9 version
--       10 rates (JSON)  11 dead (s)  12 seed  13 salt 0..1  14 ttl (s)  15 door (JSON)  16 address  17 cores
--       18 what its decoder takes (text)
--       19 anew, after a fence (what the old epoch held is not charged) or again (the live epoch has loaded other tasks)
--       then the names of its tasks
-- gives {1, cohorts (JSON)}, or {0} where another machine of this name is alive, {2} where it is again and no longer live
local node, key, salt = A[1], P .. 'node:' .. A[1], tonumber(A[13])
local old = call('HMGET', key, 'identity', 'epoch', 'state', 'beat_at', 'kit')
local is_over = old[3] == 'gone' or old[3] == 'dead'
local alive = old[4] and not is_over and now() - old[4] < tonumber(A[11])
if alive and old[1] ~= A[2] then return { 0 } end
if A[19] == 'again' and (old[2] ~= A[3] or is_over) then return { 2 } end
local kit = redis.sha1hex(table.concat(A, ' ', 20))
call('HSET', key, 'identity', A[2], 'epoch', A[3], 'state', 'starting', 'slots', A[4], 'gpu', A[5], 'mem', A[6],
  'board', A[7], 'labels', A[8], 'version', A[9], 'dead_s', A[11], 'rates', A[10], 'kit', kit, 'door', A[15],
  'address', A[16], 'cores', A[17], 'decode', A[18])
if A[19] ~= 'again' then  -- a run that goes on is still asked to kill what it was, and its beats are counted on
  call('HSET', key, 'seq', 0, 'net', 0, 'weight', 0, 'trim', 1, 'metrics', '{}', 'running', '[]',
    'reserved', '[]', 'failed', 0, 'ended', 0)
  call('DEL', P .. 'cancel:' .. node)
end
call('HDEL', key, 'planned', 'failing', 'streak', 'good_at', 'pause', 'stuck', 'stuck_at')
call('SADD', P .. 'nodes', node)
call('SADD', P .. 'boards', A[7])
call('DEL', P .. 'tasks:' .. node)
if #A > 19 then call('SADD', P .. 'tasks:' .. node, unpack(A, 20)) end
call('HSETNX', P .. 'cohorts', 'any', '{"labels":[],"slots":1,"gpu":0,"mem":0}')
if old[5] ~= kit or is_over then count_knowers() end
local cohorts = reindex(node, salt)
if old[2] ~= A[3] then lose_all(node, 'its node started anew', A[19] ~= 'after a fence', A[12], salt, A[14]) end
call('HSET', key, 'beat_at', stamp(now()))  -- last: what was lost was lost when the old epoch was last heard of
return { 1, cjson.encode(cohorts) }
