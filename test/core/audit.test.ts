// Catches: an act on a run that its audit does not tell, or tells of somebody else.
import { expect, test } from "vitest";
import { auditOf } from "../../src/core/audit.ts";
import { describedCalls } from "../../src/core/described.ts";
import type { FeedEntry } from "../../src/core/event.ts";
import { noUsage } from "../../src/core/run.ts";

type Bare = FeedEntry extends infer E ? (E extends FeedEntry ? Omit<E, "seq" | "at" | "turn"> : never) : never;
const feed = (...entries: Bare[]): FeedEntry[] =>
  entries.map((entry, index) => ({ seq: index + 1, at: 100 + index, turn: 0, ...entry }) as FeedEntry);
const call = { callId: "call-1-1", tool: "pay" };
const error = { code: "x", message: "it broke" };

test("who did what, in order; what nobody ordered is Drover's own", () => {
  const entries = feed(
    { type: "run_created", messages: [0, 1], by: "ann" },
    { type: "run_began", agentHash: "h" },
    { type: "policy_applied", ...call, policy: "policy rule 1: approval never" },
    { type: "approval_asked", ...call, why: "policy", argumentsHash: "h1", reason: "policy rule 2: approval always" },
    { type: "approved", ...call, by: "bob", argumentsHash: "h1" },
    { type: "approval_asked", ...call, why: "unknown_outcome", argumentsHash: "h1" },
    { type: "denied", ...call, by: "cleo", reason: "it did happen", argumentsHash: "h1" },
    { type: "approval_expired", ...call, argumentsHash: "h1" },
    { type: "tool_described", ...call },
    { type: "input_received", count: 1, by: "dan" },
    { type: "answer_asked", ...call, from: "person" },
    { type: "answered", ...call, by: "gil" },
    { type: "answer_asked", ...call, from: "caller" },
    { type: "answer_expired", ...call, from: "caller" },
    { type: "run_ended", status: "failed", stopReason: "model_error", error },
    { type: "run_retried", by: "eve" },
    { type: "usage_reported", execution: "x", usage: noUsage },
    { type: "run_ended", status: "cancelled", stopReason: "cancelled", error, by: "fay" },
    { type: "run_paused", by: "hal", reason: "an incident" },
    { type: "run_resumed", by: "ida" },
  );
  const about = { ...call, argumentsHash: "h1" };
  expect(auditOf(entries)).toEqual([
    { at: 100, by: "ann", action: "started" },
    { at: 102, by: "drover", action: "ruled", ...call, reason: "policy rule 1: approval never" },
    { at: 103, by: "drover", action: "asked", ...about, reason: "policy rule 2: approval always" },
    { at: 104, by: "bob", action: "approved", ...about },
    { at: 105, by: "drover", action: "asked", ...about, reason: "unknown_outcome" },
    { at: 106, by: "cleo", action: "denied", ...about, reason: "it did happen" },
    { at: 107, by: "drover", action: "expired", ...about },
    { at: 108, by: "drover", action: "described", ...call },
    { at: 109, by: "dan", action: "sent_input" },
    { at: 110, by: "drover", action: "asked", ...call, reason: "a person answers it" },
    { at: 111, by: "gil", action: "answered", ...call },
    { at: 112, by: "drover", action: "asked", ...call, reason: "its caller executes it" },
    { at: 113, by: "drover", action: "expired", ...call },
    { at: 115, by: "eve", action: "retried" },
    { at: 117, by: "fay", action: "cancelled", reason: "it broke" },
    { at: 118, by: "hal", action: "paused", reason: "an incident" },
    { at: 119, by: "ida", action: "resumed" },
  ]);
});

test("records of older versions, and rejected ones", () => {
  const entries = feed(
    { type: "run_created", messages: [0, 1] },
    { type: "input_received", count: 1 },
    { type: "run_rejected", error },
    { type: "run_ended", status: "cancelled", stopReason: "cancelled", by: "fay" },
  );
  expect(auditOf(entries)).toEqual([
    { at: 100, by: "unknown", action: "started" },
    { at: 101, by: "unknown", action: "sent_input" },
    { at: 102, by: "drover", action: "rejected", reason: "it broke" },
    { at: 103, by: "fay", action: "cancelled", reason: undefined },
  ]);
});

test("what a dry run described is told with the arguments it was asked with", () => {
  const tool = { role: "tool", toolCallId: "x", outcome: "ok" } as const;
  expect(
    describedCalls([
      { role: "user", content: "go" },
      {
        role: "assistant",
        content: null,
        toolCalls: [
          { callId: "call-1-1", id: "a", name: "look", arguments: "{}" },
          { callId: "call-1-2", id: "b", name: "pay", arguments: '{"euros":5}' },
        ],
      },
      { ...tool, callId: "call-1-1", name: "look", content: "seen" },
      { ...tool, callId: "call-1-2", name: "pay", content: "Dry run", described: "pays 5" },
      { role: "assistant", content: "done" },
      { ...tool, callId: "call-9-9", name: "odd", content: "Dry run", described: "odd" },
    ]),
  ).toEqual([
    { callId: "call-1-2", tool: "pay", arguments: '{"euros":5}', text: "pays 5" },
    { callId: "call-9-9", tool: "odd", arguments: "", text: "odd" },
  ]);
});
