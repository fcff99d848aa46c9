-- Deletes a mark if it is mine: one that took too long may be another's by now.
-- KEYS[1] the mark
-- ARGV[1] my value
-- Returns how many were deleted.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
