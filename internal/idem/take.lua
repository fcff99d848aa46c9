-- Takes a record that is free, mine, or still what it was when its owner was found dead.
-- KEYS[1] the record
-- ARGV[1] my value, ARGV[2] its time to live in ms, ARGV[3] the dead owner's value, left out if there is none
-- Returns false when it is mine now, else the value of whoever has it.
local now = redis.call('GET', KEYS[1])
if now and now ~= ARGV[1] and now ~= ARGV[3] then return now end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false
