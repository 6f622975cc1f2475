-- What every script needs: times, list names, and what a record leaves out. Each script names the pieces it uses.
--
-- KEYS  1 the cluster's prefix; every other key is built from it (store/keys.py spells them)
local call, A, P = redis.call, ARGV, KEYS[1]
local TERMINAL = { SUCCEEDED = true, FAILED = true, CANCELLED = true }
-- What a record leaves out, because most jobs have it.
local USUAL = { kind = 'task', strategy = 'dynamic', how = 'learned', cohort = 'any', prio = '3', lease = '1 0 0 task', max = '3' }
local USUAL_FIELDS = { 'kind', 'strategy', 'how', 'cohort', 'prio', 'lease', 'max' }

-- The server's clock: (s), with ms and with us as text. It stands still while a script runs, and to format a number
-- costs as much as a small command.
local time, time_ms, time_us
local function now()
  if not time then
    local t = call('TIME')
    local us = string.sub('00000' .. t[2], -6)
    time, time_ms, time_us = t[1] + t[2] / 1000000, t[1] .. '.' .. string.sub(us, 1, 3), t[1] .. '.' .. us
  end
  return time
end

local function stamp(t) return t == time and time_ms or string.format('%.3f', t) end
local function micros(t) return t == time and time_us or string.format('%.6f', t) end

local function list_key(queue, prio)
  if tonumber(prio) == 0 then return P .. queue end
  return P .. queue .. '\006\022' .. prio
end

