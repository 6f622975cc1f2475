-- A stream has come to its end. What still runs of it is asked to end first.
--
-- uses  base leads room ending parts
-- ARGV  1 epoch  2 term  3 id  4 its turn  5 state  6 why  7 result (JSON or '')  8 salt 0..1  9 ttl (s)
-- gives 1, or 0 where the term or that turn is over, or a seat runs yet
if not leads(A[1], A[2]) then return 0 end
local id, key, state, salt = A[3], P .. 'job:' .. A[3], A[5], tonumber(A[8])
local j = call('HMGET', key, 'state', 'turn', 'parts', 'cancel_asked', 'reason')
if not j[1] or TERMINAL[j[1]] or (j[2] or '0') ~= A[4] then return 0 end
local why = j[4] and j[5] or A[6]
stop_parts(id, why, A[9], salt)
for _, seat in ipairs(cjson.decode(j[3] or '[]')) do
  local was = call('HGET', P .. 'job:' .. seat, 'state')
  if was and not TERMINAL[was] then return 0 end
end
call('HDEL', key, 'owner', 'heir', 'parts')
if j[4] then
  close(id, nil, 'CANCELLED', 'reason', why, false, A[9], salt)
elseif state == 'SUCCEEDED' then
  close(id, nil, state, 'result', A[7], false, A[9], salt)
else
  close(id, nil, state, 'error', why, false, A[9], salt)
end
return 1
