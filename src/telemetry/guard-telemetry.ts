import type { Logger, Telemetry } from "../ports.ts";
import { createGuard } from "./guard.ts";
import { createNoTelemetry } from "./no-telemetry.ts";

/**
 * Somebody else's telemetry, whose trouble stays its own: what it throws is logged once and never reaches a run, and a
 * step is executed once, whatever `withStep` does with it.
 */
export function guardTelemetry(given: Telemetry, logger: Logger): Telemetry {
  const guard = createGuard(logger, "telemetry failed; runs go on without it");
  const none = createNoTelemetry();
  return {
    startTrace: (runId, traceparent) =>
      guard(() => given.startTrace(runId, traceparent)) ?? none.startTrace(runId, traceparent),
    recordStart: (run) => guard(() => given.recordStart(run)),
    withStep(run, step, fn) {
      let work: ReturnType<typeof fn> | undefined;
      const once = (): ReturnType<typeof fn> => {
        work ??= fn();
        return work;
      };
      // Its own promise is only awaited where it has not begun the work: the outcome is the work's.
      const own = guard(() => given.withStep(run, step, once));
      if (work || !own) {
        own?.catch(() => undefined);
        return once();
      }
      return own.then(once, once);
    },
    recordStep: (span) => guard(() => given.recordStep(span)),
    recordApproval: (run, wait) => guard(() => given.recordApproval(run, wait)),
    recordEnd: (run) => guard(() => given.recordEnd(run)),
    recordUsage: (run, usage, definition) => guard(() => given.recordUsage(run, usage, definition)),
    count: (of, by) => guard(() => given.count(of, by)),
    recordRequest: (request) => guard(() => given.recordRequest(request)),
    observeFleet(read) {
      const stop = guard(() => given.observeFleet(read));
      return () => guard(() => stop?.());
    },
  };
}
