-- The leader's term.
--
-- uses  base

-- Does this epoch lead, in this term? A late word from an old term hurts nobody.
local function leads(epoch, term)
  local l = call('HMGET', P .. 'leader', 'epoch', 'term')
  return l[1] == epoch and l[2] == term
end
