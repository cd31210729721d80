import { describe, expect, test } from "vitest";
import type { RunEvent } from "../../src/core/event.ts";
import type { RunFeedEvent } from "../../src/core/feed.ts";
import type { Message } from "../../src/core/message.ts";
import { createRedactor } from "../../src/core/redact.ts";
import { redactEvent, redactMessage } from "../../src/core/redact-event.ts";
import { createFeedRedactor } from "../../src/core/redact-feed.ts";
import { noUsage } from "../../src/core/run.ts";

const redactor = createRedactor();
const leak = "password=hunter2";
const step = { owedAt: 1, index: 0 };
const error = { code: "x", message: leak };
const manifest = { agentHash: "h", messages: [], tools: [], dropped: [] };
const call = { callId: "call-1-1", id: "p", name: "t", arguments: JSON.stringify({ password: "hunter2" }) };
const runPlan = { type: "ask", effect: "write", repeatable: false, onUnknown: "tell", timeoutMs: 1 } as const;
const question = { argumentsHash: "h", description: leak, reason: "r" };

const answered = (fields: Partial<Extract<RunEvent, { type: "model_answered" }>>): RunEvent => ({
  type: "model_answered",
  step,
  execution: "e",
  message: { role: "assistant", content: leak },
  calls: [],
  usage: noUsage,
  finishReason: "stop",
  manifest,
  ...fields,
});

const finished = {
  type: "child_finished",
  step,
  outcome: "failed",
  end: { status: "failed", stopReason: "model_error" },
  usage: noUsage,
} as const;

const always: RunEvent[] = [
  { type: "model_failed", step, execution: "e", error, usage: noUsage, nextAt: null },
  { type: "window_shrunk", step, execution: "e", budgetTokens: 1, error },
  { type: "verify_failed", step, error, nextAt: null },
  { type: "tool_failed", step, error, nextAt: 1 },
  { type: "tool_unknown", step, startToken: "s", error },
  { type: "step_crashed", step, count: 1, error, poison: false, nextAt: null },
  { type: "session_refused", round: 1, error },
  { type: "limit_reached", step, reason: "deadline", message: leak },
  { type: "denied", callId: "c", by: "b", reason: leak },
  { type: "cancel_requested", by: "b", reason: leak },
  { type: "pause_requested", by: "b", reason: leak },
  { ...finished, content: "a", fails: error },
];
const content: RunEvent[] = [
  answered({}),
  answered({ message: { role: "assistant", content: null, refusal: leak, extra: { reasoning: leak } } }),
  answered({ next: { type: "reask", feedback: leak, max: 1 } }),
  { type: "summarised", step, execution: "e", text: leak, usage: noUsage },
  { type: "answer_refused", step, feedback: leak, max: 1 },
  { type: "tool_finished", step, content: leak, outcome: "ok" },
  { type: "tool_finished", step, content: [{ type: "text", text: leak }], outcome: "ok" },
  { type: "input_received", inputId: "i", messages: [{ role: "user", content: leak }] },
  { type: "answered", callId: "c", by: "b", content: leak },
  { type: "session_entered", round: 1, messageCount: 0, inputAgain: [{ role: "user", content: leak }] } as RunEvent,
];

describe("events as they are committed", () => {
  test.each(always.map((event) => [event.type, event] as const))("%s: always without secrets", (_type, event) => {
    const redacted = redactEvent(event, { redactor, stored: false });
    expect(JSON.stringify(redacted)).not.toContain("hunter2");
    expect(JSON.stringify(redacted).replaceAll("[redacted: password]", "hunter2")).toBe(JSON.stringify(event));
  });

  test.each(content.map((event) => [event.type, event] as const))(
    "%s: as they are, unless asked for",
    (_type, event) => {
      expect(redactEvent(event, { redactor, stored: false })).toBe(event);
      const redacted = redactEvent(event, { redactor, stored: true });
      expect(JSON.stringify(redacted)).not.toContain("hunter2");
      expect(redacted).toMatchObject({ type: event.type });
    },
  );

  test("what a call is run with stays; what is told about it does not", () => {
    const event = answered({
      next: { type: "complete" },
      calls: [
        { call, plan: { ...runPlan, question } },
        { call, plan: runPlan },
        { call, plan: { type: "settle", content: leak } },
        { call, plan: { type: "settle", content: "ok", described: leak } },
      ],
    });
    const redacted = redactEvent(event, { redactor, stored: true });
    expect(JSON.stringify(redacted).split("hunter2")).toHaveLength(5);
    expect(redacted).toMatchObject({ calls: [{ call }, { call }, { call }, { call }], next: { type: "complete" } });
  });

  test("a result that was cut was redacted before", () => {
    const full = { name: "call-1-1", runId: "r", ref: "x", chars: 9, bytes: 9, head: 4, tail: 4 };
    const event: RunEvent = { type: "tool_finished", step, content: leak, outcome: "ok", full };
    expect(redactEvent(event, { redactor, stored: true })).toBe(event);
  });

  test("other events are not touched", () => {
    const event: RunEvent = { type: "time_came" };
    expect(redactEvent(event, { redactor, stored: true })).toBe(event);
    const message: Message = { role: "tool", callId: "c", toolCallId: "i", name: "t", content: "x", outcome: "ok" };
    expect(redactMessage(message, redactor)).toEqual(message);
  });
});

describe("a feed as it is shown", () => {
  const base = { id: "1", seq: 1, at: 1, turn: 1 };
  const piece = (text: string, execution = "e"): RunFeedEvent => ({
    ...base,
    type: "text",
    attempt: 1,
    execution,
    text,
  });
  const textOf = (events: RunFeedEvent[]): string =>
    events.map((event) => (event.type === "text" ? event.text : "")).join("");

  test("a secret in two pieces is not shown, and no text is lost", () => {
    const redact = createFeedRedactor(redactor);
    const ended = { ...base, type: "answer_verified" } as RunFeedEvent;
    const shown = [piece("the pass"), piece("word is: hun"), piece("ter2 and that is all of it"), ended].flatMap(
      redact,
    );
    expect(textOf(shown)).toBe("the password is: [redacted: password] and that is all of it");
    expect(shown.at(-1)).toEqual(ended);
    expect(redact(ended)).toEqual([ended]);
  });

  test("other events are redacted whole; void text is not given out any more", () => {
    const redact = createFeedRedactor(redactor);
    redact(piece("some"));
    const void1 = { ...base, type: "text_superseded", attempt: 1, execution: "e" } as RunFeedEvent;
    expect(redact(void1)).toEqual([void1]);
    redact(piece("one"));
    expect(textOf(redact(piece("two", "f")))).toBe("one");
    const failed = { ...base, type: "verify_failed", attempt: 1, error, nextAt: null } as RunFeedEvent;
    expect(JSON.stringify(redact(failed))).not.toContain("hunter2");
  });
});

test("a child's result is redacted where content is, and no error is made up for it", () => {
  const event: RunEvent = { ...finished, content: leak };
  expect(redactEvent(event, { redactor, stored: false })).toEqual(event);
  expect(JSON.stringify(redactEvent(event, { redactor, stored: true }))).not.toContain("hunter2");
});
