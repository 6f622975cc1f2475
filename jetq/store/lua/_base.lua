-- What every script needs: times, list names, and what a record leaves out. Each script names the pieces it uses.
--
-- KEYS  1 the cluster's prefix; every other key is built from it (store/keys.py spells them)
local call, A, P = redis.call, ARGV, KEYS[1]
local TERMINAL = { SUCCEEDED = true, FAILED = true, CANCELLED = true }
-- What a record leaves out, because most jobs have it.
local USUAL = { kind = 'task', strategy = 'dynamic', how = 'learned', cohort = 'any', prio = '3', lease = '1 0 0 task', max = '3' }
local USUAL_FIELDS = { 'kind', 'strategy', 'how', 'cohort', 'prio', 'lease', 'max' }

local time
-- The server's clock (s); it stands still while a script runs.
local function now()
  if not time then
    local t = call('TIME')
    time = tonumber(t[1]) + t[2] / 1000000
  end
  return time
end

local function stamp(t) return string.format('%.3f', t) end
-- A time as the score of a sorted set; as a number it would cost twice as much.
local function micros(t) return string.format('%.6f', t) end

local function list_key(queue, prio)
  if tonumber(prio) == 0 then return P .. queue end
  return P .. queue .. '\006\022' .. prio
end

