import type { Count } from "../../src/ports.ts";
import { startMetrics } from "../support/metrics.ts";
import { approval, aRun, ended, fleetView, modelSpan, toolSpan } from "../telemetry/fixtures.ts";

const counts: Count[] = [
  { what: "commit_conflict" },
  { what: "sweep_repair" },
  { what: "run_rejected" },
  { what: "step_crashed" },
  { what: "watcher" },
  { what: "redelivery", queue: "tools" },
  { what: "lock_lost", queue: "tools" },
  { what: "step_held", reason: "unknown_agent" },
  { what: "breaker_opened", tool: "look" },
  { what: "run_removed", status: "completed" },
];

/** What a process serves that has something to tell of every metric, in Prometheus's format. Only inside a test file. */
export async function renderEverything(): Promise<string> {
  const { telemetry, render, stop } = startMetrics();
  const run = aRun(telemetry);
  telemetry.recordStart(run);
  const outcome = modelSpan(run).outcome;
  telemetry.recordStep(modelSpan(run, { outcome: { ...outcome, usage: { ...outcome.usage, costUsd: 1 } } }));
  telemetry.recordStep(modelSpan(run, { errorType: "rate_limited" }));
  telemetry.recordStep(toolSpan(run));
  telemetry.recordApproval(run, approval);
  telemetry.recordEnd(ended(run));
  telemetry.recordRequest({ method: "GET", route: "/runs", status: 200, durationMs: 3 });
  for (const count of counts) telemetry.count(count);
  telemetry.observeFleet(async () => fleetView);
  try {
    return await render();
  } finally {
    await stop();
  }
}
