-- Nodes that fail at job after job while others do well.
--
-- uses  base
local STREAK, FIRST_S, LAST_S = 10, 10, 40  -- failures without a success between; pause, doubled each time (s)

-- How often a node has failed since its last success; 0 where one has come since the last count. n: see FAILING
local FAILING = { 'state', 'ended', 'failed', 'streak', 'good_at', 'pause' }
local function streak_of(n)
  local good = (n[2] or 0) - (n[3] or 0)
  return n[5] and tonumber(n[5]) == good and tonumber(n[4]) or 0, good
end

local function somebody_does_well(but)
  for _, name in ipairs(call('SMEMBERS', P .. 'nodes')) do
    local n = call('HMGET', P .. 'node:' .. name, unpack(FAILING))
    local streak, good = streak_of(n)
    if name ~= but and n[1] == 'up' and good > 0 and streak <= 2 then return true end
  end
  return false
end

local function rest(node, pause, why)
  call('HSET', P .. 'node:' .. node, 'state', 'failing', 'failing', stamp(now() + pause), 'why', why)
end

-- Count a failure. The tenth in a row takes the node out for a while, unless the jobs fail everywhere; the next one
-- after that pause takes it out again, for longer.
local function count_failure(node)
  local key = P .. 'node:' .. node
  local n = call('HMGET', key, unpack(FAILING))
  local streak, good = streak_of(n)
  local pause = streak == 0 and FIRST_S or tonumber(n[6] or FIRST_S)
  streak = streak + 1
  local rests = streak >= STREAK and n[1] == 'up' and somebody_does_well(node)
  call('HSET', key, 'streak', streak, 'good_at', good, 'pause', rests and math.min(pause * 2, LAST_S) or pause)
  if rests then rest(node, pause, streak .. ' jobs failed here one after the other, while other nodes do well') end
end

-- Count a message that its node left lying although it had room. The third without an end of any job between takes the
-- node out for a while: its lane does not read.
local function count_stuck(node)
  local key = P .. 'node:' .. node
  local n = call('HMGET', key, 'state', 'ended', 'stuck', 'stuck_at')
  local count = (n[4] == n[2] and tonumber(n[3] or 0) or 0) + 1
  call('HSET', key, 'stuck', count, 'stuck_at', n[2] or 0)
  if count >= 3 and n[1] == 'up' then rest(node, LAST_S, 'its lane takes no messages although it has room') end
end

-- Is the pause of a failing node over? (A time too far ahead is one of a clock that was set back.)
local function may_try(until_s)
  local left = until_s - now()
  return left <= 0 or left > 2 * LAST_S
end
