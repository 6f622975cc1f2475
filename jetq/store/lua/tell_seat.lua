-- A seat of a stream says how it is, and what it saw. What the owner saw is kept; of others it is not.
--
-- uses  base sure room ending
-- ARGV  1 seat  2 its token  3 '1' = its frames come  4 how it is (JSON)  5 what it takes (JSON, '': not known)
--       6 how many results are kept  7 the number of the first result that follows: this seat's are numbered from 0, and
--       come again where an answer was lost  then the results (JSON)
-- gives {1, '1' it is the owner or '', version of the spec, metrics of its node (JSON)}, {-1} its stream goes on without
--       it, {-2} the server was started anew: ask again in a moment
if not is_sure() then return { -2 } end
local seat = P .. 'job:' .. A[1]
local m = call('HMGET', seat, 'state', 'token', 'whole', 'node', 'ready_at', 'told')
if m[1] ~= 'RUNNING' or m[2] ~= A[2] then return { -1 } end
local key = P .. 'job:' .. m[3]
local g = call('HMGET', key, 'state', 'owner', 'heir', 'version', 'started_at')
if not g[1] or TERMINAL[g[1]] or (g[2] ~= A[1] and g[3] ~= A[1]) then return { -1 } end
local t = stamp(now())
call('HSET', seat, 'telemetry', A[4])
if A[3] == '1' and not m[5] then
  call('HSET', seat, 'ready_at', t)
  ring()
elseif A[3] ~= '1' and m[5] then
  call('HDEL', seat, 'ready_at')
end
local owns = g[2] == A[1]
if owns then
  call('HSET', key, 'telemetry', A[4], 'told_at', t)
  if A[5] ~= '' then call('HSET', key, 'load', A[5]) end
  if g[1] ~= 'RUNNING' then call('HSET', key, 'state', 'RUNNING') end
  if not g[5] then call('HSET', key, 'started_at', t) end
  for i = 8 + math.max(0, (m[6] or 0) - A[7]), #A do
    call('XADD', P .. 'results:' .. m[3], 'MAXLEN', '~', A[6], '*', 'r', A[i])
  end
  if #A > 7 then call('HSET', seat, 'told', math.max(tonumber(m[6] or 0), A[7] + #A - 7)) end
end
return { 1, owns and '1' or '', g[4], call('HGET', P .. 'node:' .. m[4], 'metrics') or '' }
