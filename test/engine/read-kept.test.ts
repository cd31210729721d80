// Catches: a call's id, which is a caller's word, that finds something other than a result; and a result that
// moves while it is looked for.
import { expect, test } from "vitest";
import type { ToolMessage } from "../../src/core/message.ts";
import { makeRun } from "../../src/core/new-run.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { findResult } from "../../src/engine/read-kept.ts";
import type { RunStore } from "../../src/ports.ts";
import { createMemoryDrover, scriptedModel } from "../../src/testing/index.ts";

test.each(["constructor", "toString", "__proto__"])("there is no result of a call named %s", async (callId) => {
  const drover = createMemoryDrover({
    agents: [defineAgent({ name: "a", instructions: "", model: scriptedModel(["done"]) })],
  });
  await drover.work();
  const run = await drover.start("a", "go");
  await run.result();
  await expect(run.readResult(callId)).rejects.toMatchObject({ code: "not_found" });
  await drover.close();
});

test("a result that went from the early ones into the transcript since the head was read is found", async () => {
  const message: ToolMessage = {
    role: "tool",
    callId: "call-1-1",
    toolCallId: "c",
    name: "look",
    content: "seen",
    outcome: "ok",
  };
  const made = makeRun({
    ...{ runId: "run-1", agent: "a", messages: [{ role: "user", content: "go" }], inputHash: "h", at: 1, token: "t" },
    trace: { traceId: "1".repeat(32), rootSpanId: "2".repeat(16), flags: 0 },
  });
  const before = { ...made, messageCount: 2 };
  const after = { ...made, revision: 5, messageCount: 3 };
  const transcript = [made, made, message];
  const store = {
    readResults: async () => ({}),
    readMessages: async (_name: string, from: number, to: number) => transcript.slice(from, to),
    load: async () => after,
  } as unknown as RunStore;
  expect(await findResult(store, before, "call-1-1")).toEqual(message);
  await expect(findResult(store, before, "call-1-2")).rejects.toMatchObject({ code: "not_found" });
});
