// Would catch a step that lies in its queue, perhaps for months, though its run has gone on or ended.
import { expect, test } from "vitest";
import type { Step } from "../../src/core/owed.ts";
import { queueOwed, queueSteps } from "../../src/engine/queue-owed.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { makeWorld } from "../core/support.ts";

const { run } = makeWorld({ delayMs: 60_000 });
const ended = { ...run, status: "cancelled" as const, model: undefined };

function makeDeps(now: typeof run | null) {
  const calls: [what: string, ids: string[]][] = [];
  const note =
    (what: string) =>
    async (steps: Step[]): Promise<void> =>
      void calls.push([what, steps.map(({ owedAt, index }) => `${owedAt}-${index}`)]);
  const load = async (): Promise<typeof run | null> => now;
  return { calls, store: { load }, queue: { add: note("add"), remove: note("remove") }, logger: createSilentLogger() };
}

test("a delayed step that is owed still stays queued", async () => {
  const deps = makeDeps(run);
  await queueOwed(deps, run);
  expect(deps.calls).toEqual([["add", ["1-0"]]]);
});

test.each([
  ["ended", ended],
  ["gone", null],
])("a delayed step is taken back if its run is %s by the time it was queued", async (_what, now) => {
  const deps = makeDeps(now);
  await queueOwed(deps, run);
  expect(deps.calls).toEqual([
    ["add", ["1-0"]],
    ["remove", ["1-0"]],
  ]);
});

test("what is not delayed is not looked at again", async () => {
  const deps = makeDeps(null);
  await queueSteps(deps, [{ runId: "run-1", kind: "model", owedAt: 1, index: 0 }]);
  expect(deps.calls).toEqual([["add", ["1-0"]]]);
});
