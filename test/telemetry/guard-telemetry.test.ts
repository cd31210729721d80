import { expect, test } from "vitest";
import type { Run } from "../../src/core/run.ts";
import type { StepSpan, Telemetry } from "../../src/ports.ts";
import { guardTelemetry } from "../../src/telemetry/guard-telemetry.ts";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import { collectWarnings } from "../redis/setup.ts";

const run = { runId: "r" } as Run;
const step = { kind: "model" as const, turn: 1, attempt: 1, owedAt: 1 };
const broken = (): never => {
  throw new Error("broken");
};
const names = Object.keys(createNoTelemetry()) as (keyof Telemetry)[];

test("what telemetry throws stays its own, is told once, and a run still has a trace", async () => {
  const { logger, warnings } = collectWarnings();
  const guarded = guardTelemetry(
    Object.fromEntries(names.map((name) => [name, broken])) as unknown as Telemetry,
    logger,
  );
  expect(guarded.startTrace("r").traceId).toMatch(/^[0-9a-f]{32}$/);
  expect(await guarded.withStep(run, step, async () => "done")).toBe("done");
  guarded.recordStart(run);
  guarded.recordStep({} as StepSpan);
  guarded.recordEnd(run);
  guarded.count({ what: "step_crashed" });
  guarded.observeFleet(async () => undefined)();
  expect(warnings).toEqual(['telemetry failed; runs go on without it {"error":"broken"}']);
});

test.each<[string, Telemetry["withStep"]]>([
  ["passes it on", (_run, _step, fn) => fn()],
  ["begins it late", async (_run, _step, fn) => Promise.resolve().then(fn)],
  ["begins it twice", async (_run, _step, fn) => fn().then(fn)],
  ["never begins it", async () => undefined as never],
  ["rejects", async () => broken()],
  ["begins it and rejects", async (_run, _step, fn) => fn().then(broken)],
  [
    "begins it and throws",
    (_run, _step, fn) => {
      void fn();
      return broken();
    },
  ],
])("a step is executed once by telemetry that %s", async (_title, withStep) => {
  const guarded = guardTelemetry({ ...createNoTelemetry(), withStep }, collectWarnings().logger);
  let times = 0;
  const work = async (): Promise<string> => {
    times += 1;
    return "done";
  };
  expect(await guarded.withStep(run, step, work)).toBe("done");
  await expect(guarded.withStep(run, step, async () => broken())).rejects.toThrow("broken");
  expect(times).toBe(1);
});
