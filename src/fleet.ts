import { ownQueues, type QueueDepth, readQueueDepths, sumDepths } from "./bullmq/queue-depths.ts";
import { runsQueue } from "./bullmq/step-job.ts";
import type {
  FleetGates,
  FleetReader,
  FleetSwitch,
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
  /** Those of the shards; of an installation that has but one, `keys` alone. */
  shards: readonly Keys[];
  presence: Presence;
  fleetSwitch: Pick<FleetSwitch, "read">;
  store: Pick<RunStore, "count">;
  gates: Pick<FleetGates, "states" | "occupancy">;
};

/**
 * Reads the whole installation in a few round trips, at most once a second. Its cost grows with the number of workers,
 * queues and gates, not with that of runs or steps.
 */
export function createFleetReader(options: FleetReaderOptions): FleetReader {
  let kept: { at: number; view: Promise<FleetView> } | undefined;

  function readKept(): Promise<FleetView> {
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
  }

  return {
    async read() {
      // Whoever has just paused or resumed the fleet must see it: that alone is read each time.
      const [view, paused] = await Promise.all([readKept(), options.fleetSwitch.read()]);
      return paused ? { ...view, paused } : view;
    },
  };
}

async function readFleet(options: FleetReaderOptions): Promise<FleetView> {
  const { connection, presence, store } = options;
  const { at, redis } = await readServerFacts(connection);
  const [workers, agents, gates, counts, owing] = await Promise.all([
    presence.workers(),
    presence.agents(),
    readGates(options),
    store.count(),
    Promise.all(options.shards.map((shard) => readOwing(connection, shard, at))),
  ]);
  const depths = await readDepths(options, queueNames(workers, agents));
  const queues = withWorkers(depths, workers);
  return { at, redis, workers, agents, queues, gates, counts, owing: sumOwing(owing) };
}

/** Every queue but that of the starts is there once in each shard. */
async function readDepths({ connection, keys, shards }: FleetReaderOptions, names: string[]): Promise<QueueDepth[]> {
  if (shards.length === 1) return readQueueDepths(connection, keys.prefix, names);
  const steps = names.filter((name) => name !== runsQueue);
  const depths = await Promise.all([
    readQueueDepths(connection, keys.prefix, [runsQueue]),
    ...shards.map(({ prefix }) => readQueueDepths(connection, prefix, steps)),
  ]);
  return sumDepths(depths.flat(), names);
}

function sumOwing(all: readonly FleetView["owing"][]): FleetView["owing"] {
  const since = all.flatMap(({ oldestSince }) => oldestSince ?? []);
  const count = all.reduce((sum, owing) => sum + owing.count, 0);
  return { count, ...(since.length === 0 ? {} : { oldestSince: Math.min(...since) }) };
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
