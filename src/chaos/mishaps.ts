import { setTimeout as sleep } from "node:timers/promises";
import type { Crew } from "./crew.ts";
import type { ChaosRedis } from "./redis-server.ts";
import type { Tally } from "./tally.ts";
import type { TimedFault } from "./timed-faults.ts";

/** A fault waits so long at most for workers to be there that something can befall. */
const mostWaitMs = 20_000;

export type Scene = {
  crew: Crew;
  redis: ChaosRedis;
  prefix: string;
  tally: Tally;
  signal: AbortSignal;
  /** Pauses the whole fleet for so long; resolves when it goes on. */
  pauseFleet: (forMs: number) => Promise<void>;
};

/** Lets the faults happen, each at its time. Resolves after the last, with Redis up. */
export async function letHappen(faults: readonly TimedFault[], scene: Scene): Promise<void> {
  const startedAt = performance.now();
  const pauses: Promise<void>[] = [];
  const untilMs = (faults.at(-1)?.atMs ?? 0) + mostWaitMs;
  for (const fault of faults) {
    const waitMs = fault.atMs - (performance.now() - startedAt);
    if (waitMs > 0) await sleep(waitMs, undefined, { signal: scene.signal }).catch(() => {});
    await someAtWork(scene);
    if (scene.signal.aborted || performance.now() - startedAt > untilMs) break;
    // Other faults happen in it.
    if (fault.fault === "pause_fleet") pauses.push(handled(scene.pauseFleet(fault.forMs)));
    else await happen({ ...fault, fault: fault.fault }, scene);
  }
  await scene.redis.start();
  await Promise.all(pauses);
}

/** A failure of it is told to whoever awaits it in the end; until then nobody does, which would end this process. */
function handled(work: Promise<void>): Promise<void> {
  work.catch(() => {});
  return work;
}

/** On a slow machine processes start slowly: if faults came all the same, nobody would ever do anything. */
async function someAtWork({ crew, signal }: Scene): Promise<void> {
  const until = performance.now() + mostWaitMs;
  const wanted = Math.ceil(crew.relays.length / 2);
  while (crew.atWork() < wanted && performance.now() < until && !signal.aborted) await sleep(20);
}

type Happening = TimedFault & { fault: Exclude<TimedFault["fault"], "pause_fleet"> };

async function happen(given: Happening, { crew, redis, prefix, tally, signal }: Scene): Promise<void> {
  const { fault, forMs } = given;
  const worker = given.worker % crew.relays.length;
  const relay = crew.relays[worker];
  const places = crew.relays.map((_, index) => (worker + index) % crew.relays.length);
  const kill = (): void => {
    // One that has just been started has nothing to lose yet: another takes its turn.
    if (places.some((place) => crew.kill(place))) tally.kills += 1;
  };
  switch (fault) {
    case "kill":
      return kill();
    case "kill_at_write":
      return relay?.lieInWait({ kind: "at_write", spring: kill });
    case "kill_after_write":
      return relay?.lieInWait({ kind: "after_write", spring: kill });
    case "lose_write":
      return relay?.lieInWait({ kind: "lose_write", spring: () => void (tally.outages += 1) });
    case "lose_reply":
      return relay?.lieInWait({ kind: "lose_reply", spring: () => void (tally.lostReplies += 1) });
    case "cut":
      tally.outages += 1;
      return relay?.cut();
    case "pause":
      if (places.some((place) => crew.pause(place, forMs))) tally.pauses += 1;
      return;
    case "stop":
      if (places.some((place) => crew.stop(place))) tally.stops += 1;
      return;
    case "redis_kill":
    case "redis_stop":
      await (fault === "redis_kill" ? redis.kill() : redis.stop());
      await sleep(forMs, undefined, { signal }).catch(() => {});
      await redis.start();
      tally.restarts += 1;
      return;
    case "forget_scripts":
      await redis.call("SCRIPT", "FLUSH");
      return;
    case "lose_steps":
      await redis.call("EVAL", loseSteps, 0, `${prefix}:q`, 3);
  }
}

/** Takes steps that wait, or are delayed, out of the queues of steps, data and all. */
const loseSteps = `
local deleted = 0
for _, queue in ipairs({ 'model', 'tools' }) do
  for _, state in ipairs({ 'prioritized', 'delayed', 'wait' }) do
    local key = ARGV[1] .. ':' .. queue .. ':' .. state
    local ids = state == 'wait' and redis.call('LRANGE', key, 0, ARGV[2] - 1) or redis.call('ZRANGE', key, 0, ARGV[2] - 1)
    for _, id in ipairs(ids) do
      if string.find(id, '^%d+-%d+-') then
        if state == 'wait' then redis.call('LREM', key, 1, id) else redis.call('ZREM', key, id) end
        redis.call('DEL', ARGV[1] .. ':' .. queue .. ':' .. id)
        deleted = deleted + 1
      end
    end
  end
end
return deleted`;
