#!lua
-- Decide one request against the sliding window of its key, atomically, by the store's own clock.
--
-- KEYS  1 window (sorted set)   2 limits (hash)   3 blocks (hash)
-- ARGV  1 key   2 default limit   3 window in microseconds   4 member, never used before
-- Answer: {allowed 0|1, limit, remaining, microseconds until a place is free, blocked 0|1}
--
-- The first line makes the store refuse the whole script when it is out of memory or read-only;
-- without it the store would let the second write through after the first.

local key, window_us, member = ARGV[1], tonumber(ARGV[3]), ARGV[4]

local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- A limit that is not a plain number is nobody's decision, so the default holds.
local own_limit = redis.call('HGET', KEYS[2], key)
local limit = tonumber(ARGV[2])
if own_limit and string.match(own_limit, '^%d+$') then
  limit = tonumber(own_limit)
end

if redis.call('HEXISTS', KEYS[3], key) == 1 then
  return {0, limit, 0, window_us, 1}
end

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_us - window_us)
local count = redis.call('ZCARD', KEYS[1])

local allowed = 0
if count < limit then
  redis.call('ZADD', KEYS[1], now_us, member)
  redis.call('PEXPIRE', KEYS[1], math.ceil(window_us / 1000))
  allowed, count = 1, count + 1
end

-- Places become free from the oldest on; after a limit was lowered, several must leave first.
local rank = math.max(0, count - limit)
local leaves_next = redis.call('ZRANGE', KEYS[1], rank, rank, 'WITHSCORES')[2]
local reset_us = window_us
if leaves_next then
  reset_us = tonumber(leaves_next) + window_us - now_us
end

return {allowed, limit, math.max(0, limit - count), reset_us, 0}
