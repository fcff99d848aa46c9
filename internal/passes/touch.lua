-- Keeps a member in its group or takes it in, and puts out those whose time is over.
-- KEYS[1] the group
-- ARGV[1] the member, ARGV[2] its nonce, ARGV[3] its time to live in ms
-- ARGV[4] how many partitions it knows of
-- ARGV[5] 1: take it in if it is not in, and under its name only this nonce from now on. 0: don't
-- ARGV[6] for how long the group is remembered from now on, in ms; 0: for ever
-- Returns the time in ms and the group's fields and values. Nothing was changed if its partitions are others.
local key, me = KEYS[1], 'member:' .. ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local partitions = redis.call('HGET', key, 'partitions')
if partitions and partitions ~= ARGV[4] then return {now, redis.call('HGETALL', key)} end

local moved = false
local fields = redis.call('HGETALL', key)
for i = 1, #fields, 2 do
  if fields[i]:sub(1, 7) == 'member:' and fields[i] ~= me and tonumber(fields[i + 1]:match('%d+$')) < now then
    redis.call('HDEL', key, fields[i])
    moved = true
  end
end
local value = redis.call('HGET', key, me)
local mine = value and value:match('^%S+') == ARGV[2]
if mine or ARGV[5] == '1' then
  redis.call('HSET', key, 'partitions', ARGV[4], me, ARGV[2] .. ' ' .. string.format('%.0f', now + ARGV[3]))
  moved = moved or not mine
end
if moved then redis.call('HINCRBY', key, 'generation', 1) end
if ARGV[6] ~= '0' then redis.call('PEXPIRE', key, ARGV[6]) end
return {now, redis.call('HGETALL', key)}
