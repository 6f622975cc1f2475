-- After a restart of the server that may have lost its last writes: claim again what runs on a node.
--
-- uses  base sure room index scarce place ending lose
-- ARGV  1 node  2 epoch  3 salt 0..1  then 4 a job: id, pub, claimer, token
-- gives how many claims had been lost
if is_sure() or call('HGET', P .. 'node:' .. A[1], 'epoch') ~= A[2] then return 0 end
local node, count = A[1], 0
for i = 4, #A, 4 do
  local id, pub, claimer, token = unpack(A, i, i + 3)
  local key = P .. 'job:' .. id
  local j = call('HMGET', key, 'state', 'pub', 'node', 'lease', 'attempts')
  local unclaimed = j[1] == 'ASSIGNED' or j[1] == 'QUEUED'
  if unclaimed and j[2] == pub and string.match(token, '^(%d+)-') == (j[5] or '0') then
    release(id, j[3], tonumber(A[3]))
    forget_places(id)
    hold(id, node, j[4] or USUAL.lease, tonumber(A[3]))
    call('HSET', key, 'state', 'RUNNING', 'node', node, 'epoch', A[2], 'claimer', claimer, 'token', token, 'started_at', stamp(now()))
    note(id, 'claimed again', node, 'the broker was started anew and had lost the claim')
    count = count + 1
  end
end
return count
