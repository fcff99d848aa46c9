-- Counts one more crash. In one step: a count without a time to live would stay for ever.
-- KEYS[1] the count
-- ARGV[1] its time to live in ms
-- Returns the count.
local n = redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return n
