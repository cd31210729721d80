import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Content } from "../../src/core/message.ts";
import { interpretReply, type ModelReply, type ReplyContext, usedToolCallIds } from "../../src/core/reply.ts";
import { makeToolCallId } from "../../src/core/reply-ids.ts";
import { answerTextOf } from "../../src/core/reply-text.ts";

function read(reply: Partial<ModelReply>, context: Partial<ReplyContext> = {}): ReturnType<typeof interpretReply> {
  return interpretReply({
    reply: { content: null, toolCalls: [], ...reply },
    finishReason: "stop",
    turn: 3,
    offered: ["add", "ping"],
    usedIds: new Set(["taken"]),
    seed: "run-a",
    ...context,
  });
}

describe("attempts of which nothing is kept", () => {
  const call = { id: "c1", name: "add", arguments: "{}" };
  test.each<[string, Partial<ModelReply>, string, [string, string]]>([
    ["empty", {}, "stop", ["transient", "empty_answer"]],
    ["empty text", { content: "" }, "stop", ["transient", "empty_answer"]],
    ["space", { content: " \n" }, "stop", ["transient", "empty_answer"]],
    ["nothing but a think block", { content: "<think>hm</think>" }, "stop", ["transient", "empty_answer"]],
    ["no text part", { content: [{ type: "thinking", thinking: "hm" }] }, "stop", ["transient", "empty_answer"]],
    ["calls announced, none made", { content: "I will look." }, "tool_calls", ["transient", "missing_tool_call"]],
    [
      "a call without name and arguments",
      { toolCalls: [{ name: "", arguments: "" }] },
      "tool_calls",
      ["transient", "missing_tool_call"],
    ],
    [
      "more calls than any task needs",
      { toolCalls: Array.from({ length: 1_001 }, () => call) },
      "tool_calls",
      ["transient", "too_many_calls"],
    ],
    ["cut text", { content: "The rule is" }, "length", ["transient", "length"]],
    ["a call announced by another name", { content: "I will look." }, "tool_use", ["transient", "missing_tool_call"]],
    ["cut, as Mistral says", { content: "The rule is" }, "model_length", ["transient", "length"]],
    ["filtered, as Gemini says", { content: "The" }, "SAFETY", ["permanent", "content_filter"]],
    [
      "broken, as a gateway says",
      { content: "The", toolCalls: [call] },
      "function_call_filter: MALFORMED_FUNCTION_CALL",
      ["transient", "model_error"],
    ],
    ["cut by another name", { content: "The rule is" }, "max_tokens", ["transient", "length"]],
    ["a whole call in a cut answer", { toolCalls: [call] }, "length", ["transient", "length"]],
    ["filtered", { content: "The" }, "content_filter", ["permanent", "content_filter"]],
    ["broken off", { content: "The", toolCalls: [call] }, "error", ["transient", "model_error"]],
  ])("%s", (_, reply, finishReason, [kind, code]) => {
    expect(read(reply, { finishReason })).toEqual({ type: "failed", class: kind, code, message: expect.any(String) });
  });
});

describe("answers", () => {
  test("text, with what the provider added", () => {
    const extra = { reasoning_content: "because" };
    expect(read({ content: "5", extra })).toEqual({ type: "answer", content: "5", calls: [], extra });
  });

  test("a refusal is an answer", () => {
    expect(read({ refusal: "No." })).toEqual({ type: "answer", content: null, calls: [], refusal: "No." });
    expect(read({ refusal: "No." }, { finishReason: "tool_calls" }).type).toBe("answer");
  });

  test.each(["stop", "tool_calls", "function_call", "whatever"])(
    "calls count with finish reason %s",
    (finishReason) => {
      const answer = read(
        { content: "", toolCalls: [{ id: "c1", name: "functions.Add", arguments: "" }] },
        { finishReason },
      );
      expect(answer).toEqual({
        type: "answer",
        content: null,
        calls: [{ call: { callId: "call-3-1", id: "c1", name: "add", arguments: "{}" } }],
      });
    },
  );

  test("arguments that cannot be read are replayed as {} and the model is told why", () => {
    const cut = `{"a":"${"x".repeat(1000)}`;
    const answer = read({ toolCalls: [{ id: "c1", name: "add", arguments: cut }] });
    expect(answer).toMatchObject({ type: "answer", calls: [{ call: { arguments: "{}" } }] });
    const problem = answer.type === "answer" ? (answer.calls[0]?.problem ?? "") : "";
    expect(problem).toMatch(/add was not run.*ends inside a string.*one complete JSON object.*\[cut here\]/);
    expect(problem.length).toBeLessThan(700);
  });

  test("unreadable arguments that are short are shown whole", () => {
    const answer = read({ toolCalls: [{ id: "c1", name: "add", arguments: "{a" }] });
    expect(answer).toMatchObject({ calls: [{ problem: expect.stringMatching(/Received: \{a$/) }] });
  });

  test("an unknown tool keeps its name; one without a name gets one", () => {
    const answer = read({
      toolCalls: [
        { id: "c1", name: "subtract ", arguments: "{}", extra: { signature: "s" } },
        { id: "c2", name: "", arguments: '{"a":1}' },
      ],
    });
    expect(answer).toMatchObject({
      calls: [{ call: { name: "subtract", extra: { signature: "s" } } }, { call: { name: "unnamed" } }],
    });
  });
});

describe("ids", () => {
  const idsOf = (ids: (string | undefined)[]): string[] => {
    const answer = read({ toolCalls: ids.map((id) => ({ id, name: "ping", arguments: "{}" })) });
    return answer.type === "answer" ? answer.calls.map(({ call }) => call.id) : [];
  };

  test("the provider's is kept if it is there and new; else nine letters and digits are made", () => {
    const ids = idsOf(["functions.ping:0", undefined, "", "taken", "functions.ping:0"]);
    expect(ids[0]).toBe("functions.ping:0");
    for (const id of ids.slice(1)) expect(id).toMatch(/^[a-zA-Z0-9]{9}$/);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("a redelivered step makes the same ids", () => {
    expect(idsOf(["", ""])).toEqual(idsOf(["", ""]));
  });

  test("an id that is in use is not made again", () => {
    const first = makeToolCallId("run-a/call-1-1", () => false);
    expect(makeToolCallId("run-a/call-1-1", (id) => id === first)).not.toBe(first);
  });

  test("a made id gives way to a provider's own that stands later in the list", () => {
    const made = makeToolCallId("run-a/call-3-1", () => false);
    expect(idsOf([undefined, made])[1]).toBe(made);
  });

  test("used ids are those of all earlier answers", () => {
    const call = { callId: "call-1-1", id: "x", name: "ping", arguments: "{}" };
    const ids = usedToolCallIds([
      { role: "user", content: "hi" },
      { role: "assistant", content: null, toolCalls: [call] },
      { role: "tool", callId: "call-1-1", toolCallId: "x", name: "ping", content: "pong", outcome: "ok" },
      { role: "assistant", content: "done" },
    ]);
    expect([...ids]).toEqual(["x"]);
  });
});

test.each<[string, Parameters<typeof answerTextOf>[0], string]>([
  ["plain", { content: "The sum is 5." }, "The sum is 5."],
  ["a think block", { content: "<think>\nhm\n</think>\n\nThe sum is 5." }, "The sum is 5."],
  ["an end without a beginning", { content: "hm, 2 + 3\n</think>\nThe sum is 5." }, "The sum is 5."],
  ["an open block", { content: "<think>for ever" }, ""],
  [
    "parts",
    {
      content: [
        { type: "thinking", thinking: [] },
        { type: "text", text: "It is 21 C." },
      ],
    },
    "It is 21 C.",
  ],
  ["a refusal", { content: null, refusal: "No." }, "No."],
  ["nothing", { content: null }, ""],
])("the text of an answer: %s", (_, message, text) => {
  expect(answerTextOf(message)).toBe(text);
});

test("whatever a model says, an answer can be replayed", () => {
  const rawCall = fc.record({
    id: fc.option(fc.constantFrom("", "taken", "c1", "c2"), { nil: undefined }),
    name: fc.oneof(fc.string(), fc.constantFrom("add", " ping", "")),
    arguments: fc.oneof(fc.string(), fc.json()),
  });
  const content = fc.option(fc.oneof(fc.string(), fc.constant<Content>([{ type: "text", text: "hi" }])));
  fc.assert(
    fc.property(content, fc.array(rawCall, { maxLength: 5 }), fc.string(), (text, toolCalls, finishReason) => {
      const answer = read({ content: text, toolCalls }, { finishReason });
      if (answer.type === "failed") return;
      const ids = answer.calls.map(({ call }) => call.id);
      expect(new Set([...ids, "taken"]).size).toBe(ids.length + 1);
      for (const { call } of answer.calls) {
        expect(call.name).not.toBe("");
        expect(JSON.parse(call.arguments)).toBeTypeOf("object");
      }
      expect(answer.calls.length > 0 || answerTextOf(answer) !== "").toBe(true);
    }),
    { numRuns: 2_000 },
  );
});
