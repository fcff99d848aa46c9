-- Takes a claim back, if it is mine.
-- KEYS[1] the record
-- ARGV[1] my value
-- Returns false when nothing of mine is there any more, else the value of whoever has it.
local now = redis.call('GET', KEYS[1])
if not now then return false end
if now ~= ARGV[1] then return now end
redis.call('DEL', KEYS[1])
return false
