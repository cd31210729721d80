import { describe, expect, test } from "vitest";
import { inputSchema, messageSchema, textOf, toInputMessages } from "../../src/core/message.ts";
import { makeRejectedRun, makeRun, runIdSchema, startPayloadSchema } from "../../src/core/new-run.ts";
import { owed } from "../../src/core/owed.ts";
import { addUsage, isEnded, noUsage } from "../../src/core/run.ts";
import { trace } from "./support.ts";

const input = { runId: "order-42", agent: "a", messages: [], inputHash: "h", trace, at: 1_000, token: "t" };

describe("a new run", () => {
  test("owes its first model step at once, or after its delay", () => {
    expect(owed(makeRun(input))).toMatchObject([{ kind: "model", owedAt: 1, index: 0, notBefore: undefined }]);
    expect(owed(makeRun({ ...input, delayMs: 500 }))).toMatchObject([{ kind: "model", notBefore: 1_500 }]);
  });

  test("keeps a producer's deadline from its creation, and never sleeps past it", () => {
    const run = makeRun({ ...input, delayMs: 5_000, limits: { deadlineMs: 700 }, metadata: { tenant: "x" } });
    expect(run).toMatchObject({ deadlineAt: 1_700, deadlineMs: 700, metadata: { tenant: "x" }, status: "queued" });
    expect(owed(run)).toMatchObject([{ notBefore: 1_700 }]);
  });

  test("that was rejected owes nothing and says why", () => {
    const run = makeRejectedRun({ ...input, reason: "agent: expected text" });
    expect(run).toMatchObject({ status: "rejected", error: { code: "rejected", message: "agent: expected text" } });
    expect(isEnded(run)).toBe(true);
    expect(owed(run)).toEqual([]);
  });
});

describe("what producers may send", () => {
  test.each(["order-42", "a", "A.b_c-1", "x".repeat(128)])("%s is a run id", (id) => {
    expect(runIdSchema.safeParse(id).success).toBe(true);
  });
  test.each(["", "42", "1-2.3", "a:b", "a b", "ä", "x".repeat(129), "a/b"])("%j is no run id", (id) => {
    expect(runIdSchema.safeParse(id).success).toBe(false);
  });

  test("text or messages without tool calls", () => {
    expect(toInputMessages("hi")).toEqual([{ role: "user", content: "hi" }]);
    const parts = [
      { role: "user" as const, content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AA==" } }] },
    ];
    expect(toInputMessages(inputSchema.parse(parts))).toEqual(parts);
    for (const bad of ["", [], [{ role: "tool", content: "x" }], [{ role: "user" }], 5]) {
      expect(inputSchema.safeParse(bad).success).toBe(false);
    }
  });

  test("a payload without unknown fields", () => {
    const ok = { agent: "a", input: "go", metadata: { a: [1] }, limits: { maxTurns: 3 } };
    expect(startPayloadSchema.parse(ok)).toEqual(ok);
    for (const bad of [
      { ...ok, agent: "" },
      { ...ok, extra: 1 },
      { ...ok, limits: { maxTurns: 0 } },
      { ...ok, traceparent: "x" },
    ]) {
      expect(startPayloadSchema.safeParse(bad).success).toBe(false);
    }
  });
});

describe("small parts", () => {
  test("usage adds up, with cost and estimates where there are any", () => {
    const plain = { inputTokens: 1, outputTokens: 2, cachedTokens: 3 };
    expect(addUsage(noUsage, plain)).toEqual(plain);
    expect(addUsage({ ...plain, costUsd: 1 }, plain)).toEqual({
      inputTokens: 2,
      outputTokens: 4,
      cachedTokens: 6,
      costUsd: 1,
    });
    expect(addUsage(plain, { ...noUsage, costUsd: 2, estimated: true })).toMatchObject({ costUsd: 2, estimated: true });
  });

  test("text is what remains of a content without other parts", () => {
    expect(textOf(null)).toBe("");
    expect(textOf("plain")).toBe("plain");
    expect(
      textOf([{ type: "text", text: "a" }, { type: "image_url" }, { type: "text" }, { type: "text", text: "b" }]),
    ).toBe("ab");
  });

  test("messages keep fields that are not known", () => {
    const message = { role: "assistant", content: null, toolCalls: [], extra: { reasoning_content: "hm" } };
    expect(messageSchema.parse(message)).toEqual(message);
    expect(messageSchema.safeParse({ role: "oracle", content: "" }).success).toBe(false);
  });
});
