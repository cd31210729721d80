// Catches: a result whose middle is lost and that is shown with a hole in it.
import { expect, test } from "vitest";
import type { ToolMessage } from "../../src/core/message.ts";
import { planReadResult } from "../../src/engine/read-result.ts";
import type { AgentCode } from "../../src/ports.ts";
import { createMemoryRunStore } from "../../src/testing/memory-run-store.ts";
import { tokenCounter } from "../../src/tokens/token-counter.ts";

const full = { name: "call-1-1", runId: "run-a", ref: "call-1-1.x", chars: 1_000, bytes: 1_000, head: 5, tail: 5 };
const cut: ToolMessage = {
  ...{ role: "tool", callId: "call-1-1", toolCallId: "p-1", name: "dump", outcome: "ok", full },
  content: "begin\n[cut: ...]\n12end",
};
const agent = {
  tools: { maxResultTokens: () => undefined },
  tokens: () => tokenCounter("none"),
} as unknown as AgentCode;
const ask = (args: object) =>
  planReadResult(
    { store: createMemoryRunStore(), agent, messages: [cut] },
    { callId: "call-2-1", id: "p-2", name: "read_result", arguments: JSON.stringify(args) },
  );

test.each([{ from: 4 }, { find: "x" }])("what is gone from the store is called gone: %j", async (args) => {
  const content = expect.stringContaining("what was cut out of call-1-1 is not kept any more");
  expect(await ask({ result: "call-1-1", ...args })).toEqual({ type: "settle", content });
});

test("what the message shows is read without the store", async () => {
  expect(await ask({ result: "call-1-1", from: 995 })).toMatchObject({
    content: "[characters 995 to 1000 of 1000; this is its end]\n12end",
    outcome: "ok",
  });
});
