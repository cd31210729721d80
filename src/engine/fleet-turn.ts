import type { FleetReader, FleetView, RunStore } from "../ports.ts";

/** Longer than the usual time between two collections of metrics, so that whoever tells of the fleet goes on doing so. */
const turnMs = 90_000;

/**
 * Reads the fleet for metrics, in one process of it at a time: fifty workers do not tell the same fifty times. If the one
 * that does ends, another takes over within a minute and a half.
 *
 * @param holder names this process among all.
 */
export function readInTurn(
  { store, fleet }: { store: Pick<RunStore, "tryLease">; fleet: FleetReader },
  holder: string,
): () => Promise<FleetView | undefined> {
  return async () => ((await store.tryLease("fleet-metrics", turnMs, holder)) ? fleet.read() : undefined);
}
