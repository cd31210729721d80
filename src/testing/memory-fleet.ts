import type { OperatorLimits } from "../core/fleet-limits.ts";
import type { Step } from "../core/owed.ts";
import { knownGates } from "../engine/known-gates.ts";
import { readGates, withWorkers } from "../fleet.ts";
import type { AgentCode, Clock, FleetGates, FleetReader, QueueState, RunStore, WorkerPresence } from "../ports.ts";
import { droverVersion, toKnownAgent } from "../presence.ts";
import type { WorkerHandle } from "../worker.ts";
import type { MemoryFleetSwitch } from "./memory-fleet-switch.ts";
import { owingSince } from "./memory-listing.ts";
import type { MemoryStepQueue } from "./memory-step-queue.ts";

export type MemoryFleetOptions = {
  clock: Pick<Clock, "now">;
  store: Pick<RunStore, "count" | "owing" | "load">;
  queue: Pick<MemoryStepQueue, "list">;
  gates: Pick<FleetGates, "states" | "occupancy">;
  limits: OperatorLimits;
  agents: readonly AgentCode[];
  fleetSwitch: MemoryFleetSwitch;
  /** Those that work at the moment. */
  workers: ReadonlyMap<Pick<WorkerHandle, "queues" | "stats">, { startedAt: number }>;
};

/** Nothing limits how much a worker in memory takes; what one on Redis takes of its two queues by default. */
const concurrency = 200;

/** The whole of an installation that lies in this process. There is no Redis to tell of. */
export function createMemoryFleet(options: MemoryFleetOptions): FleetReader {
  const { clock, store, gates, agents } = options;
  const names = agents.map(({ definition }) => definition.name);
  const known = knownGates(agents, options.limits);
  const place = { host: "memory", pid: process.pid, version: droverVersion(), concurrency, agents: names };

  return {
    async read() {
      const at = clock.now();
      const paused = await options.fleetSwitch.read();
      const workers = [...options.workers].map(([{ queues, stats }, { startedAt }], index): WorkerPresence => {
        const { running } = stats();
        return {
          id: `memory-${index + 1}`,
          ...place,
          startedAt,
          seenAt: at,
          queues: [...queues],
          running,
          ...(paused ? { paused: true } : {}),
        };
      });
      return {
        at,
        redis: { roundTripMs: 0 },
        workers,
        agents: agents.map((agent) => toKnownAgent(agent, [], at)),
        queues: withWorkers(depths(options.queue.list(), at), workers),
        gates: await readGates({ gates, presence: { gates: async () => known } }),
        counts: await store.count(),
        owing: await readOwing(store, at),
        ...(paused ? { paused } : {}),
      };
    },
  };
}

/** Where a step would lie on BullMQ. */
function queueOf({ queue }: Step): string {
  return queue === undefined ? "model" : `tools-${encodeURIComponent(queue)}`;
}

function depths(steps: ReturnType<MemoryStepQueue["list"]>, at: number): Omit<QueueState, "workers">[] {
  const names = new Set(["runs", "model", "tools", ...steps.map(({ step }) => queueOf(step))]);
  return [...names].map((name) => {
    const own = steps.filter(({ step }) => queueOf(step) === name);
    const count = (state: "waiting" | "active" | "delayed"): number => own.filter((one) => one.state === state).length;
    const ready = own.filter(({ state, dueAt }) => state !== "active" && dueAt <= at).map(({ dueAt }) => dueAt);
    const depth = { name, waiting: count("waiting"), active: count("active"), delayed: count("delayed") };
    return ready.length === 0 ? depth : { ...depth, oldestAgeMs: at - Math.min(...ready) };
  });
}

const mostOwing = 1_000;

async function readOwing(
  store: Pick<RunStore, "owing" | "load">,
  at: number,
): Promise<{ count: number; oldestSince?: number | undefined }> {
  const ids = await store.owing(at + 1, mostOwing);
  const oldest = ids[0] === undefined ? null : await store.load(ids[0]);
  return { count: ids.length, ...(oldest ? { oldestSince: owingSince(oldest) } : {}) };
}
