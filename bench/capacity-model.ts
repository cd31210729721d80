// What an installation carries, by the laws of operational analysis: each of its parts bounds the rate of steps by what
// one step demands of it (the utilisation law), and the runs at work are what the rate and the time of a turn make
// (Little's law). Pure, so that `capacity.ts`, the page and a test use the same.

/** CPU of one step, in µs; measured by `npm run bench:scale`. */
export type Demand = { workerUs: number; redisUs: number };

/**
 * - `workers`: processes, each with a core of its own; `slots`: model calls at once in each;
 * - `masters`: Redis servers that the shards are spread over, each with a core of its own;
 * - `cores`: set if all of these share one machine.
 */
export type Installation = { workers: number; slots: number; masters: number; cores?: number | undefined };

export type Bound = "slots" | "workers" | "redis" | "cores";

/** A turn is a model step and the step of a tool that takes no time; its model call takes `latencyMs`. */
const stepsPerTurn = 2;
/** What a model call's slot is held for beside the call: taking the job, committing, finishing. */
const slotOverheadMs = 5;

/** The most steps per second, and what bounds them. `busy`: the share of each part that may be in use. */
export function stepsPerSecond(
  { workers, slots, masters, cores }: Installation,
  { workerUs, redisUs }: Demand,
  latencyMs: number,
  busy = 1,
): { perSecond: number; bound: Bound } {
  const bounds: [Bound, number][] = [
    ["slots", (workers * slots * stepsPerTurn * 1_000) / (latencyMs + slotOverheadMs)],
    ["workers", (workers * busy * 1e6) / workerUs],
    ["redis", (masters * busy * 1e6) / redisUs],
    ...(cores === undefined ? [] : [["cores", (cores * busy * 1e6) / (workerUs + redisUs)] satisfies [Bound, number]]),
  ];
  const [bound, perSecond] = bounds.reduce((least, other) => (other[1] < least[1] ? other : least));
  return { perSecond, bound };
}

/** What it takes to have so many runs at work at once, none of which waits for anybody but its model. */
export function installationFor(
  runs: number,
  { workerUs, redisUs }: Demand,
  latencyMs: number,
  busy: number,
): { perSecond: number; workers: number; masters: number; slots: number } {
  const perSecond = (runs * stepsPerTurn * 1_000) / (latencyMs + slotOverheadMs);
  const workers = Math.ceil((perSecond * workerUs) / (busy * 1e6));
  return {
    perSecond,
    workers,
    masters: Math.ceil((perSecond * redisUs) / (busy * 1e6)),
    slots: Math.ceil(runs / workers),
  };
}

/** How long a command waits for a server that is busy for that share of the time, in ms (M/D/1). */
export function redisWaitMs({ redisUs }: Demand, busy: number): number {
  return ((busy / (2 * (1 - busy))) * redisUs) / 1_000;
}
