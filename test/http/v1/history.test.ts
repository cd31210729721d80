// Catches: a history that is copied into a run in a form that the run refuses, or with a call, a result or a word lost.
import fc from "fast-check";
import { expect, test } from "vitest";
import { inputSchema, type Message, textOf, toInputMessages } from "../../../src/core/message.ts";
import { toEntries, toInput } from "../../../src/http/v1/history.ts";

const text = fc.string({ minLength: 1, maxLength: 8 });
const said = fc.record({ role: fc.constantFrom("user" as const, "developer" as const), content: text });
const turn = fc.record({ content: fc.option(text), results: fc.array(text, { maxLength: 3 }) });

/** A transcript as runs make it: each call has its result, in call order. */
function toTranscript(
  parts: ({ role: "user" | "developer"; content: string } | { content: string | null; results: string[] })[],
): Message[] {
  return parts.flatMap((part, index): Message[] => {
    if (!("results" in part)) return [part];
    const name = "look";
    const calls = part.results.map((_, at) => ({
      callId: `call-${index + 1}-${at + 1}`,
      id: `c${at}`,
      name,
      arguments: "{}",
    }));
    const results = calls.map(
      ({ callId, id }, at): Message => ({
        role: "tool",
        callId,
        toolCallId: id,
        name,
        content: part.results[at] ?? "",
        outcome: "ok",
      }),
    );
    return [
      { role: "assistant", content: part.content, ...(calls.length > 0 ? { toolCalls: calls } : {}) },
      ...results,
    ];
  });
}

/** What is said, by whom, which calls were made and what they brought. */
const lines = (messages: readonly Message[]): string[] =>
  messages.flatMap((message) => {
    const calls = message.role === "assistant" ? (message.toolCalls ?? []).map(({ id }) => `calls ${id}`) : [];
    return [...(message.content ? [`${message.role}: ${textOf(message.content)}`] : []), ...calls];
  });

test("any transcript becomes input that a run takes, with all that was said and done", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(said, turn), { minLength: 1, maxLength: 8 }), (parts) => {
      const transcript = toTranscript(parts);
      const input = toInput(toEntries(transcript));
      fc.pre(input.length > 0);
      const parsed = inputSchema.safeParse(input);
      expect(parsed.error?.issues ?? []).toEqual([]);
      // An answer without words that follows another is not told apart from it.
      expect(lines(toInputMessages(input))).toEqual(lines(transcript));
    }),
  );
});

test("results are put behind their calls, in call order, wherever they stood", () => {
  const call = (id: string) => ({ type: "call" as const, id, name: "look", arguments: "{}" });
  const result = (id: string, value: string) => ({ type: "result" as const, id, value, param: "" });
  const input = toInput([
    call("a"),
    call("b"),
    result("b", "two"),
    result("a", "one"),
    call("a"),
    result("a", "three"),
  ]);
  expect(input.map((message) => (message.role === "tool" ? message.content : message.role))).toEqual([
    "assistant",
    "one",
    "two",
    "assistant",
    "three",
  ]);
});
