import { AsyncLocalStorage } from "node:async_hooks";
import type { Telemetry } from "../ports.ts";
import { createNoTelemetry } from "../telemetry/no-telemetry.ts";

const knowledge = new AsyncLocalStorage<number>();

/** Emits nothing, and lets whatever a step calls be told by how much of its run the step knew when it began. */
export function createWitness(): Telemetry {
  const none = createNoTelemetry();
  return { ...none, withStep: (run, step, fn) => knowledge.run(run.eventSeq, () => none.withStep(run, step, fn)) };
}

/** The number of the last entry of its run's feed that the step which this is part of knew of; undefined: nobody watched. */
export function knownSeq(): number | undefined {
  return knowledge.getStore();
}
