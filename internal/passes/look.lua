-- Looks at a group.
-- KEYS[1] the group
-- Returns the time in ms and the group's fields and values, as touch does.
local time = redis.call('TIME')
return {time[1] * 1000 + math.floor(time[2] / 1000), redis.call('HGETALL', KEYS[1])}
