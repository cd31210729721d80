// The scripts that take a run whose record is lost or damaged out of the way. Each looks again at what was read of it.

/** Takes a run without a head out of `owing`. KEYS: 1 head, 2 owing. ARGV: 1 run id. Returns {1} if that was done. */
export const dropOwingScript = `
if redis.call('EXISTS', KEYS[1]) == 1 then return {0} end
return {redis.call('ZREM', KEYS[2], ARGV[1])}
`;
