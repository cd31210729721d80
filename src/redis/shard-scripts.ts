import { commitScript } from "./scripts.ts";

// The scripts of installations with several shards; see src/sharding/claim.ts for what holds.

/** Creates a run unless the key that comes last is there: a pointer elsewhere, or a void claim. Returns {-2, its value} then. */
export const guardedCreateScript: string = `
local guard = redis.call('GET', table.remove(KEYS))
if guard then return {-2, guard} end
${commitScript}`;

/** KEYS: 1 head, 2 pointer. ARGV: 1 a new pointer. Returns {} if the run is here, else {the pointer that holds}. */
export const pointScript = `
if redis.call('EXISTS', KEYS[1]) == 1 then return {} end
local held = redis.call('GET', KEYS[2])
if held then return {held} end
redis.call('SET', KEYS[2], ARGV[1])
return {ARGV[1]}
`;

/** KEYS: 1 pointer. ARGV: 1 what it must be, 2 what takes its place ("" for nothing). Returns {1} if that was done. */
export const movePointerScript = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0} end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2]) end
return {1}
`;

/**
 * KEYS: 1 head, 2 void claim. ARGV: 1 for how many ms. Returns {0} if the run is here. DEL comes first since a server whose
 * memory is full refuses a script at its first write: this is part of removing runs, and must work there.
 */
export const makeVoidScript = `
if redis.call('EXISTS', KEYS[1]) == 1 then return {0} end
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[2], '1', 'PX', ARGV[1])
return {1}
`;

/**
 * The number of shards of an installation, decided by whoever comes first. KEYS: 1 the number, 2 and up: what lists runs
 * without shards. ARGV: 1 the number wanted. Returns {number}, or {"unsharded"} if there are runs already that would not
 * be found any more. One shard need not be noted on a server that takes no writes, for want of memory say: it is what there
 * was before there were shards, and such a server must be reached to make room.
 */
export const shardCountScript = `
local held = redis.call('GET', KEYS[1])
if held then return {held} end
if ARGV[1] ~= '1' and redis.call('EXISTS', unpack(KEYS, 2)) > 0 then return {'unsharded'} end
local set = redis.pcall('SET', KEYS[1], ARGV[1])
if set.err and ARGV[1] ~= '1' then return set end
return {ARGV[1]}
`;
