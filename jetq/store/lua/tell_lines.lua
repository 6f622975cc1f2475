-- Add to the live copy of what a gang's ranks write. Lines are numbered from 1: who follows knows how many it missed.
--
-- uses  base
-- ARGV  1 id of the gang  2 node  3 how many lines are kept  4 ttl (s)  5 how far the gang is (JSON; '': unchanged)
--       then 2 a line: rank ('': the member itself), text
-- gives the number of the last line
local key = P .. 'gang.lines:' .. A[1]
local last = call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
local number = last and tonumber(string.match(last[1], '%d+')) or 0
now()
for i = 6, #A, 2 do
  number = number + 1
  call('XADD', key, 'MAXLEN', '~', A[3], number .. '-0', 'a', time_ms, 'n', A[2], 'r', A[i], 't', A[i + 1])
end
if #A > 5 then call('EXPIRE', key, A[4]) end
local job = P .. 'job:' .. A[1]
if A[5] ~= '' and call('HEXISTS', job, 'spec') == 1 then call('HSET', job, 'progress', A[5]) end
return number
