-- Marks a record as done, if it is mine or nobody's.
-- KEYS[1] the record
-- ARGV[1] my value while it was claimed, ARGV[2] my value when done, ARGV[3] retention in ms
-- Returns false when it is done now or was so already, else the value of whoever has it.
local now = redis.call('GET', KEYS[1])
if now == ARGV[2] then return false end
if now and now ~= ARGV[1] then return now end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return false
