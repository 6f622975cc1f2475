-- Whether this run of the server is the one that counts.
--
-- uses  base

-- A server that was started anew may have lost its last second or two: has the leader made sure of this run of it?
-- LASTSAVE changes with each start and is cheap to ask; it changes with each snapshot, too.
local function is_sure()
  local b = call('HMGET', P .. 'broker', 'run_id', 'save')
  local save = call('LASTSAVE')
  if not b[1] or tonumber(b[2]) == save then return true end
  if string.match(call('INFO', 'server'), 'run_id:(%x+)') ~= b[1] then return false end
  call('HSET', P .. 'broker', 'save', tostring(save))
  return true
end

local function make_sure()
  local run_id = string.match(call('INFO', 'server'), 'run_id:(%x+)')
  call('HSET', P .. 'broker', 'run_id', run_id, 'save', tostring(call('LASTSAVE')))
end
