import type { Attributes, BatchObservableResult, Meter, Observable } from "@opentelemetry/api";
import { atMost } from "../at-most.ts";
import type { FleetView } from "../ports.ts";
import { type FleetMetricKey, fleetMetrics } from "./metric-names-fleet.ts";
import { labels, type MetricSpec } from "./metric-spec.ts";

type Read = () => Promise<FleetView | undefined>;
type Observe = (key: FleetMetricKey, value: number, of?: Attributes) => void;

/** Longer than this nobody who collects metrics is kept waiting for Redis. */
const readMs = 4_000;

/** Gauges of the fleet, read when metrics are collected by whoever of this process is to tell. */
export function observeFleet(meter: Meter): { add(read: Read): () => void; stop(): void } {
  const reads = new Set<Read>();
  const observables = new Map<string, Observable>();
  for (const [key, { of, name, unit, description }] of Object.entries<MetricSpec>(fleetMetrics)) {
    if (of === "fleet") observables.set(key, meter.createObservableGauge(name, { unit, description }));
  }
  const look = async (result: BatchObservableResult): Promise<void> => {
    const view = await readFirst(reads);
    if (!view) return;
    tell(view, (key, value, of) => {
      const observable = observables.get(key);
      if (observable) result.observe(observable, value, of);
    });
  };
  const all = [...observables.values()];
  meter.addBatchObservableCallback(look, all);
  return {
    add(read) {
      reads.add(read);
      return () => void reads.delete(read);
    },
    stop: () => meter.removeBatchObservableCallback(look, all),
  };
}

/** Without Redis nothing is told, which is what an alert on missing values is for. */
async function readFirst(reads: Set<Read>): Promise<FleetView | undefined> {
  for (const read of reads) {
    const view = await atMost(readMs, read()).catch(() => undefined);
    if (view) return view.value;
  }
  return undefined;
}

function tell(view: FleetView, observe: Observe): void {
  for (const { name, waiting, active, delayed, oldestAgeMs = 0, workers } of view.queues) {
    const queue = { [labels.queue]: name };
    observe("queueSteps", waiting, { ...queue, [labels.queueState]: "waiting" });
    observe("queueSteps", active, { ...queue, [labels.queueState]: "active" });
    observe("queueSteps", delayed, { ...queue, [labels.queueState]: "delayed" });
    observe("queueAge", oldestAgeMs / 1_000, queue);
    observe("queueWorkers", workers, queue);
  }
  observe("workers", view.workers.length);
  for (const [status, count] of Object.entries(view.counts)) observe("runs", count, { [labels.status]: status });
  const { count, oldestSince } = view.owing;
  observe("owing", count);
  observe("owingAge", oldestSince === undefined ? 0 : Math.max(0, view.at - oldestSince) / 1_000);
  for (const gate of view.gates) {
    const of = { [labels.gateKind]: gate.kind, [labels.gate]: gate.name };
    observe("gateCalls", gate.inside, { ...of, [labels.gateState]: "inside" });
    observe("gateCalls", gate.waiting, { ...of, [labels.gateState]: "waiting" });
    if (gate.kind !== "tool") continue;
    const { openUntil = 0 } = gate.breaker ?? {};
    observe("breakerOpen", openUntil > view.at ? 1 : 0, { [labels.tool]: gate.name });
  }
  tellRedis(view.redis, observe);
}

function tellRedis(redis: FleetView["redis"], observe: Observe): void {
  if (redis.usedMemoryBytes !== undefined) observe("redisMemory", redis.usedMemoryBytes);
  if (redis.maxMemoryBytes !== undefined) observe("redisMemoryLimit", redis.maxMemoryBytes);
  if (redis.clients !== undefined) observe("redisClients", redis.clients);
  observe("redisRoundTrip", redis.roundTripMs / 1_000);
}
