-- Takes a member out of its group.
-- KEYS[1] the group
-- ARGV[1] the member, ARGV[2] its nonce
-- Returns the generation that is without it, 0 if it was not in.
local me = 'member:' .. ARGV[1]
local value = redis.call('HGET', KEYS[1], me)
if not value or value:match('^%S+') ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], me)
return redis.call('HINCRBY', KEYS[1], 'generation', 1)
