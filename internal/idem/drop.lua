-- Deletes a record if it still is what it was when somebody decided to.
-- KEYS[1] the record
-- ARGV[1] its value then
-- Returns how many were deleted.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
