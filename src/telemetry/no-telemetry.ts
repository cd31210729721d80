import { isSpanContextValid, type SpanContext, trace } from "@opentelemetry/api";
import type { Telemetry } from "../ports.ts";
import { withoutMetrics } from "./combine.ts";
import { parseTraceparent, reserveTrace } from "./ids.ts";

/** The span a new run hangs under: `traceparent` wins over the active span. */
export function parentOf(traceparent: string | undefined): SpanContext | undefined {
  const parsed = parseTraceparent(traceparent);
  if (parsed) return parsed;
  const active = trace.getActiveSpan()?.spanContext();
  return active && isSpanContextValid(active) ? active : undefined;
}

/**
 * Emits nothing, yet reserves a run's ids, so that a run started where telemetry is off is traced by workers where it
 * is on. It then counts as sampled, unless the `traceparent` or the active span says otherwise.
 */
export function createNoTelemetry(): Telemetry {
  return withoutMetrics({
    startTrace: (runId, traceparent) => reserveTrace(runId, parentOf(traceparent)),
    recordStart() {},
    withStep: (_run, _step, fn) => fn(),
    recordStep() {},
    recordApproval() {},
    recordEnd() {},
  });
}
