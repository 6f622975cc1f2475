-- What ran a job is gone.
--
-- uses  base room index scarce place ending lose
-- ARGV  1 id  2 node  3 claimer, whole or up to its dot ('' = whoever holds it there)  4 why
--       5 then: charge (an attempt), again (no charge) or fail (for good)  6 seed  7 salt 0..1  8 ttl (s)
--       9 the run of the node that held it ('' = whichever)
-- gives the state it is in now; '' where this node (or claimer) does not hold it so
local j = call('HMGET', P .. 'job:' .. A[1], 'state', 'node', 'claimer', 'cancel_asked', 'epoch')
if j[2] ~= A[2] or (A[3] ~= '' and string.sub(j[3] or '', 1, #A[3]) ~= A[3]) then return '' end
if A[9] ~= '' and j[5] ~= A[9] then return '' end
if j[1] ~= 'ASSIGNED' and j[1] ~= 'RUNNING' and j[1] ~= 'FINISHING' then return '' end
if A[5] == 'fail' and not j[4] and j[1] ~= 'FINISHING' then  -- a body that has ended has its outcome
  note(A[1], 'failed', A[2], A[4], j[1] ~= 'ASSIGNED')
  close(A[1], A[2], 'FAILED', 'error', A[4], true, A[8], tonumber(A[7]))
  return 'FAILED'
end
return lose(A[1], A[4], A[5] ~= 'again', A[6], tonumber(A[7]), A[8])
