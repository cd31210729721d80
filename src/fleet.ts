import { ownQueues, readQueueDepths } from "./bullmq/queue-depths.ts";
import type {
  FleetGates,
  FleetReader,
  FleetView,
  GateView,
  KnownAgent,
  Presence,
  QueueState,
  RunStore,
  WorkerPresence,
} from "./ports.ts";
import type { RedisConnection } from "./redis/connection.ts";
import type { Keys } from "./redis/keys.ts";
import { readOwing, readServerFacts } from "./redis/server-facts.ts";

/** What was read holds for so long, so that many who look cost no more than one. */
const keptMs = 1_000;

export type FleetReaderOptions = {
  connection: RedisConnection;
  keys: Keys;
  presence: Presence;
  store: Pick<RunStore, "count">;
  gates: Pick<FleetGates, "states" | "occupancy">;
};

/**
 * Reads the whole installation in a few round trips, at most once a second. Its cost grows with the number of workers,
 * queues and gates, not with that of runs or steps.
 */
export function createFleetReader(options: FleetReaderOptions): FleetReader {
  let kept: { at: number; view: Promise<FleetView> } | undefined;
  return {
    read() {
      const at = performance.now();
      if (kept && at - kept.at < keptMs) return kept.view;
      const view = readFleet(options);
      const own = { at, view };
      kept = own;
      view.catch(() => {
        // The next one who asks tries again.
        if (kept === own) kept = undefined;
      });
      return view;
    },
  };
}

async function readFleet(options: FleetReaderOptions): Promise<FleetView> {
  const { connection, keys, presence, store } = options;
  const { at, redis } = await readServerFacts(connection);
  const [workers, agents, gates, counts, owing] = await Promise.all([
    presence.workers(),
    presence.agents(),
    readGates(options),
    store.count(),
    readOwing(connection, keys, at),
  ]);
  const depths = await readQueueDepths(connection, keys.prefix, queueNames(workers, agents));
  return { at, redis, workers, agents, queues: withWorkers(depths, workers), gates, counts, owing };
}

/** The queues that are always there, and those that workers serve or agents put steps into. */
function queueNames(workers: readonly WorkerPresence[], agents: readonly KnownAgent[]): string[] {
  const named = [...workers.flatMap(({ queues }) => queues), ...agents.flatMap(({ queues = [] }) => queues)];
  return [...new Set([...ownQueues, ...named.toSorted()])];
}

export function withWorkers(
  depths: readonly Omit<QueueState, "workers">[],
  workers: readonly WorkerPresence[],
): QueueState[] {
  return depths.map((depth) => ({
    ...depth,
    workers: workers.filter(({ queues }) => queues.includes(depth.name)).length,
  }));
}

/** The gates that workers told of, with how busy they are and what holds them back. */
export async function readGates({
  presence,
  gates,
}: Pick<FleetReaderOptions, "gates"> & { presence: Pick<Presence, "gates"> }): Promise<GateView[]> {
  const known = await presence.gates();
  const keys = known.map(({ key }) => key);
  const [states, occupancies] = await Promise.all([gates.states(keys), gates.occupancy(keys)]);
  return known.map((gate, index) => ({
    ...gate,
    ...states[index],
    ...(occupancies[index] ?? { inside: 0, waiting: 0 }),
  }));
}
