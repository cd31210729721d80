// Catches: kept text that nothing points at and that stays for good, or a winner's that goes.
import { expect, test } from "vitest";
import type { AdvanceResult } from "../../src/engine/advance.ts";
import { dropUnusedText } from "../../src/engine/keep-result.ts";
import type { StepContext } from "../../src/engine/step.ts";
import type { Logger, RunStore } from "../../src/ports.ts";
import { createMemoryRunStore } from "../../src/testing/memory-run-store.ts";
import { change, committed, created, newRun, openCall, toolResult } from "../contract/run-fixtures.ts";

const run = newRun();
const open = openCall(1);
const full = { name: "call-1-1", runId: run.runId, ref: "call-1-1.mine", chars: 9, bytes: 9, head: 1, tail: 1 };
const inMessage = { ...full, ref: "", middle: "1234567" };
const allRefs = ["call-1-1.mine", "call-1-1.lost", "call-1-10.other"];
const logged: string[] = [];
const logger = { debug: (_fields: unknown, text: string) => logged.push(text) } as unknown as Logger;

/** What became of a result: a change that holds it, or none. */
function outcomeOf(isTaken: boolean, kept: typeof full | undefined): AdvanceResult {
  if (!isTaken) return { run: null, change: null };
  const result = { ...toolResult(open.callId, "short"), ...(kept ? { full: kept } : {}) };
  return { run, change: change(run, {}, { results: [result] }) };
}

async function leftAfter(deliveries: number, isTaken: boolean, kept: typeof full | undefined): Promise<string[]> {
  const store = createMemoryRunStore();
  const refs = ["call-1-1.mine", "call-1-1.lost", "call-1-10.other"];
  for (const ref of refs) await store.putOutput(run.runId, ref, ref);
  const context = { delivery: { deliveries } } as StepContext;
  await dropUnusedText({ store, logger }, { run, open, context }, kept, outcomeOf(isTaken, kept));
  const found = await Promise.all(refs.map((ref) => store.readOutput(run.runId, ref, 0, 99)));
  return found.filter((text) => text !== undefined);
}

test.each<[string, number, boolean, typeof full | undefined, string[]]>([
  ["a first delivery leaves all as it is", 1, true, full, ["call-1-1.mine", "call-1-1.lost", "call-1-10.other"]],
  ["a later one drops what others left", 2, true, full, ["call-1-1.mine", "call-1-10.other"]],
  ["also with a result that was short", 2, true, undefined, ["call-1-10.other"]],
  ["a loser drops its own alone", 2, false, full, ["call-1-1.lost", "call-1-10.other"]],
  ["a loser whose text was kept with the message drops nothing", 2, false, inMessage, allRefs],
  [
    "a loser with a short result drops nothing",
    2,
    false,
    undefined,
    ["call-1-1.mine", "call-1-1.lost", "call-1-10.other"],
  ],
])("%s", async (_name, ...[deliveries, isTaken, kept, left]) => {
  expect(await leftAfter(deliveries, isTaken, kept)).toEqual(left);
});

test("trouble with the store does not spoil a step that was committed", async () => {
  const store = { dropOutputs: () => Promise.reject(new Error("away")) } as unknown as RunStore;
  const context = { delivery: { deliveries: 2 } } as StepContext;
  await dropUnusedText({ store, logger }, { run, open, context }, full, outcomeOf(true, full));
  expect(logged).toHaveLength(1);
});

test("one whose result was taken and never acknowledged keeps its text, and one whose result was cut drops it", async () => {
  const store = createMemoryRunStore();
  const context = { delivery: { deliveries: 1 } } as StepContext;
  const isLeft = async (result: AdvanceResult): Promise<boolean> => {
    await store.putOutput(run.runId, full.ref, "text");
    await dropUnusedText({ store, logger }, { run, open, context }, full, result);
    return (await store.readOutput(run.runId, full.ref, 0, 99)) !== undefined;
  };
  const head = await created(store, { runId: run.runId });
  expect(await isLeft({ run: head, change: null })).toBe(false);
  const results = [{ ...toolResult(open.callId, "short"), full }];
  const after = await committed(store, change(head, {}, { results }));
  expect(await isLeft({ run: after, change: null })).toBe(true);
  const others = [{ ...toolResult(open.callId, "short"), full: { ...full, ref: "call-1-1.other" } }];
  expect(await isLeft({ run: await committed(store, change(after, {}, { results: others })), change: null })).toBe(
    false,
  );
  // The last one of its turn goes into the transcript at once.
  const append = results.map((message) => ({ type: "message" as const, message }));
  expect(await isLeft({ run, change: change(run, {}, { append }) })).toBe(true);
  expect(await isLeft(outcomeOf(true, undefined))).toBe(false);
});
