-- Moves a cursor of a group forward, for whoever knows the latest generation.
-- KEYS[1] the group
-- ARGV[1] the generation, ARGV[2] the partition, ARGV[3] the offset
-- Returns 1 (the cursor is there) or 0 (it stays where it is), the group's generation, and where the cursor is.
local field = 'offset:' .. ARGV[2]
local generation = tonumber(redis.call('HGET', KEYS[1], 'generation') or 0)
local cursor = tonumber(redis.call('HGET', KEYS[1], field) or -1)
local offset = tonumber(ARGV[3])
if generation ~= tonumber(ARGV[1]) or cursor > offset then return {0, generation, cursor} end
redis.call('HSET', KEYS[1], field, ARGV[3])
return {1, generation, offset}
