-- A member says something to the others of its start, and hears what all have said once everybody has.
--
-- uses  base sure room ending
-- ARGV  1 member's id  2 its token  3 what it is about: hello, reach, begin  4 what it says (JSON; begin: '1' where
--       its checkpoints are on storage that all members share)
-- gives {1, what each said, in their order...}, {0, who is missing...}, {-1}: its gang goes on without it,
--       {-2}: the server was started anew: ask again in a moment. begin waits for nobody: the first makes the gang RUNNING
if not is_sure() then return { -2 } end
local m = call('HMGET', P .. 'job:' .. A[1], 'state', 'token', 'whole', 'index')
if m[1] ~= 'RUNNING' or m[2] ~= A[2] then return { -1 } end
local id, key = m[3], P .. 'job:' .. m[3]
local g = call('HMGET', key, 'state', 'parts', 'stopping', 'cancel_asked', 'attempt')
local members = cjson.decode(g[2] or '[]')
if members[m[4] + 1] ~= A[1] or g[3] or g[4] then return { -1 } end
local said = P .. 'gang:' .. id
if call('HSET', said, A[3] .. '.' .. m[4], A[4]) == 1 then call('EXPIRE', said, 86400) end
if A[3] == 'begin' then
  if g[1] ~= 'RUNNING' then
    call('HSET', key, 'state', 'RUNNING', 'started_at', stamp(now()), 'attempt', (g[5] or 0) + 1, 'shared', A[4])
    note(id, 'began', call('HGET', key, 'nodes'), 'attempt ' .. (g[5] or 0) + 1)
    ring()
  end
  return { 1 }
end
if g[1] == 'RESERVED' then call('HSET', key, 'state', 'PREPARING') end
local all, missing = { 1 }, { 0 }
for index = 0, #members - 1 do
  local text = call('HGET', said, A[3] .. '.' .. index)
  all[#all + 1], missing[#missing + 1] = text or nil, not text and tostring(index) or nil
end
return #missing == 1 and all or missing
