-- Give a blob that has arrived as a whole its name. To do so again is harmless.
--
-- uses  base
-- ARGV  1 id  2 name of the upload  3 size (bytes)  4 ttl (s)
-- gives 1 it is there, 0 the upload is not whole, and nobody else has brought it
local key, upload = P .. 'blob:' .. A[1], P .. 'upload:' .. A[2]
if call('STRLEN', upload) == tonumber(A[3]) then call('RENAME', upload, key) end
return call('EXPIRE', key, A[4])
