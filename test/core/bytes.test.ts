import fc from "fast-check";
import { expect, test } from "vitest";
import { contentBytes, feedEntryBytes, messageBytes, textBytes } from "../../src/core/bytes.ts";
import type { Message } from "../../src/core/message.ts";

test("a text takes what its JSON takes in UTF-8, whatever is in it", () => {
  const units = fc.array(
    fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("\u0000", "\n", '"', "\\", "é", "漢", "😀")),
  );
  fc.assert(
    fc.property(units, (parts) => {
      const text = parts.join("");
      expect(textBytes(text)).toBe(Buffer.byteLength(JSON.stringify(text)) - 2);
    }),
  );
});

test("a message takes its content, its calls, and what was cut out of it", () => {
  expect(contentBytes(null)).toBe(0);
  expect(contentBytes(undefined)).toBe(0);
  expect(contentBytes([{ type: "text", text: "é" }])).toBeGreaterThan(20);
  const user: Message = { role: "user", content: "x".repeat(1_000) };
  expect(messageBytes(user)).toBe(1_100);
  const call = { callId: "call-1-1", id: "c", name: "look", arguments: "y".repeat(500) };
  const answer: Message = { role: "assistant", content: null, toolCalls: [call], refusal: "no", extra: { a: "b" } };
  expect(messageBytes(answer)).toBe(100 + 600 + 2 + 13);
  const full = { name: "call-1-1", runId: "r", ref: "a", chars: 7, bytes: 7_000, head: 1, tail: 1 };
  const result: Message = {
    role: "tool",
    callId: "call-1-1",
    toolCallId: "c",
    name: "look",
    content: "z",
    outcome: "ok",
  };
  expect(messageBytes(result)).toBe(101);
  expect(messageBytes({ ...result, full })).toBe(7_101);
});

test("a feed entry takes what it quotes", () => {
  expect(feedEntryBytes({ type: "run_began" })).toBe(250);
  expect(feedEntryBytes({ error: { code: "c", message: "m".repeat(50) }, text: "t", reason: "r" })).toBe(302);
});
