-- All nodes had their time to say what runs: this run of the server is the one that counts now.
--
-- uses  base sure leads
-- ARGV  1 epoch  2 term
-- gives 1, or 0 where the term is over
if not leads(A[1], A[2]) then return 0 end
make_sure()
return 1
