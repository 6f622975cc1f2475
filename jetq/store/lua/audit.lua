-- Look through a slice of all jobs for such that stand nowhere: whatever led there, none of them may wait for ever.
--
-- uses  base leads room index scarce place ending lose
-- ARGV  1 epoch  2 term  3 jobs submitted after this (s)  4 limit  5 seed  6 salt 0..1  7 ttl (s)
-- gives {submission time of the last one ('': there are no more), ids that were mended...}
if not leads(A[1], A[2]) then return { '' } end
local salt, found = tonumber(A[6]), { '' }

local function stands(id, j)
  local state, node = j[1], j[2]
  if j[4] then return TERMINAL[state] or call('ZSCORE', P .. j[5] .. 's', id) end
  if state == 'WAITING' then return j[3] or call('ZSCORE', P .. 'due', id) or call('ZSCORE', P .. 'expiry', id) end
  if state == 'QUEUED' then return call('ZSCORE', P .. 'waiting', id) end
  if state == 'ASSIGNED' or state == 'RUNNING' or state == 'FINISHING' then
    return call('HEXISTS', P .. 'leases:' .. node, id) == 1
  end
  return true
end

local slice = call('ZRANGEBYSCORE', P .. 'jobs', A[3] == '-inf' and A[3] or '(' .. A[3], '+inf', 'WITHSCORES', 'LIMIT', 0, A[4])
for i = 1, #slice, 2 do
  local id = slice[i]
  found[1] = slice[i + 1]
  local j = call('HMGET', P .. 'job:' .. id, 'state', 'node', 'replaced', 'spec', 'kind')
  if j[1] and not stands(id, j) then
    found[#found + 1] = id
    if j[4] then
      call('ZADD', P .. j[5] .. 's', slice[i + 1], id)
    elseif j[1] == 'WAITING' then
      call('ZADD', P .. 'due', now(), id)
    elseif j[1] == 'QUEUED' then
      call('ZADD', P .. 'waiting', now(), id)
    else
      lose(id, 'its lease was lost', false, A[5] .. '.' .. i, salt, A[7])
    end
    note(id, 'mended', j[2] or '', 'it stood nowhere: an error of jetq, please report it')
  end
end
return found
