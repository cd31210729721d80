import type { Telemetry } from "../ports.ts";
import type { Metrics } from "./metrics.ts";

/** What of telemetry becomes traces. */
export type Traces = Pick<
  Telemetry,
  "startTrace" | "recordStart" | "withStep" | "recordStep" | "recordApproval" | "recordEnd"
>;

/** Traces and metrics as one. */
export function combine(traces: Traces, metrics: Metrics): Telemetry {
  return {
    ...metrics,
    startTrace: traces.startTrace,
    withStep: traces.withStep,
    recordStart(run) {
      traces.recordStart(run);
      metrics.recordStart(run);
    },
    recordStep(span) {
      traces.recordStep(span);
      metrics.recordStep(span);
    },
    recordApproval(run, call) {
      traces.recordApproval(run, call);
      metrics.recordApproval(run, call);
    },
    recordEnd(run) {
      traces.recordEnd(run);
      metrics.recordEnd(run);
    },
  };
}

/** Traces alone: nothing is counted. */
export function withoutMetrics(traces: Traces): Telemetry {
  return { ...traces, recordUsage() {}, count() {}, recordRequest() {}, observeFleet: () => () => {} };
}
