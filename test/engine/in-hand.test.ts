// Would catch the result of a tool that may not run again, or an answer that was paid for, thrown away for a short outage.
import { expect, test } from "vitest";
import { DroverError } from "../../src/core/errors.ts";
import { createRarely } from "../../src/core/rarely.ts";
import { NotQueued } from "../../src/engine/advance.ts";
import { withOutcomeInHand } from "../../src/engine/in-hand.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { newRun } from "../contract/run-fixtures.ts";

const full = new DroverError("queue_unavailable", "its memory is full");

const run = newRun();
const ofRun = { runId: "run-a", agent: run.agent, turn: run.turns, traceId: run.trace.traceId };

function makeScene(failures: unknown[], aborted?: "handed_back") {
  let now = 0;
  const waits: number[] = [];
  const clock = {
    now: () => now,
    sleep: async (ms: number): Promise<void> => {
      waits.push(ms);
      now += ms;
    },
  };
  const active = { aborted: () => aborted, signal: new AbortController().signal };
  const work = async (): Promise<string> => {
    const failure = failures.shift();
    if (failure !== undefined) throw failure;
    return "committed";
  };
  const lines: unknown[][] = [];
  const logger = {
    ...createSilentLogger(),
    info: (...line: unknown[]) => void lines.push(["info", ...line]),
    warn: (...line: unknown[]) => void lines.push(["warn", ...line]),
  };
  const deps = { clock, ids: { random: () => 0 }, logger, rarely: createRarely(clock.now) };
  return { waits, lines, attempt: () => withOutcomeInHand(deps, { run, active }, work) };
}

const waiting = "the outcome of a step could not be committed; it is kept in hand and tried again";

test("trouble with Redis is waited out, longer each time, and the log says when it begins and when it is over", async () => {
  const { attempt, waits, lines } = makeScene([full, full, full]);
  expect(await attempt()).toBe("committed");
  expect(waits).toEqual([100, 200, 400]);
  expect(lines).toEqual([
    ["warn", { ...ofRun, code: "queue_unavailable", error: "its memory is full" }, waiting],
    ["info", { ...ofRun, waitedMs: 700 }, "the outcome of a step that had waited in hand was committed"],
  ]);
});

test("many steps that wait for the same say so once in a while, and one that need not wait says nothing", async () => {
  const gone = new DroverError("queue_unavailable", "it does not answer");
  const scene = makeScene([full, undefined, full, undefined, full, undefined, gone, undefined, undefined]);
  for (let step = 0; step < 5; step += 1) await scene.attempt();
  expect(scene.lines.map(([level, fields]) => [level, (fields as { error?: string }).error])).toEqual([
    ["warn", full.message],
    ["info", undefined],
    ["warn", gone.message],
  ]);
  const later = makeScene([...Array.from({ length: 20 }, () => full), undefined, full]);
  await later.attempt();
  await later.attempt();
  expect(later.lines.map(([level]) => level)).toEqual(["warn", "info", "warn"]);
});

test("not for ever", async () => {
  const { attempt, waits } = makeScene(Array.from({ length: 1_000 }, () => full));
  await expect(attempt()).rejects.toBe(full);
  expect(waits.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(130_000);
  expect(Math.max(...waits)).toBe(5_000);
});

test.each([
  ["a step that is taken from it", full, "handed_back" as const],
  ["a bug", new Error("a bug"), undefined],
  ["a change that was made", new NotQueued(full), undefined],
])("%s is not waited for", async (_what, failure, aborted) => {
  const { attempt, waits, lines } = makeScene([failure], aborted);
  await expect(attempt()).rejects.toBe(failure);
  expect(waits).toEqual([]);
  expect(lines).toEqual([]);
});
