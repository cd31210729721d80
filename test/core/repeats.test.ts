// Catches: a model that goes round in circles unnoticed, and polling taken for a circle.
import { describe, expect, test } from "vitest";
import type { Message } from "../../src/core/message.ts";
import { findRepetition, repetitionMessage, repetitionNudge } from "../../src/core/repeats.ts";

type Call = [name: string, args: string, result: string];
/** A turn for each list of calls. */
function turns(...all: Call[][]): Message[] {
  return all.flatMap((calls, turn): Message[] => [
    {
      role: "assistant",
      content: null,
      toolCalls: calls.map(([name, args], index) => ({
        callId: `call-${turn}-${index}`,
        id: `${turn}${index}`,
        name,
        arguments: args,
      })),
    },
    ...calls.map(
      ([name, , content], index): Message => ({
        role: "tool",
        callId: `call-${turn}-${index}`,
        toolCallId: `${turn}${index}`,
        name,
        content,
        outcome: "ok",
      }),
    ),
  ]);
}
const goal: Message = { role: "user", content: "go" };
const a: Call[] = [["get", '{"city":"Oslo","unit":"C"}', "4"]];
const b: Call[] = [["put", '{"x":1}', "done"]];
const c: Call[] = [["del", "{}", "gone"]];
const find = (messages: Message[], fields: Partial<Parameters<typeof findRepetition>[1]> = {}) =>
  findRepetition([goal, ...messages], { repeats: 2, from: 0, isPolling: (tool) => tool === "poll", ...fields });

describe("findRepetition", () => {
  test("finds the same call with the same result, whatever the order of its arguments", () => {
    const other: Call[] = [["get", '{"unit":"C", "city":"Oslo"}', "4"]];
    expect(find(turns(a, other))).toMatchObject({ length: 1, rounds: 2 });
    expect(find(turns(b, a, a, a))).toMatchObject({ length: 1, rounds: 3 });
    expect(find(turns(a))).toBeNull();
  });

  test.each([
    ["other arguments", turns(a, [["get", '{"city":"Rome"}', "4"]])],
    ["another result", turns(a, [["get", '{"city":"Oslo","unit":"C"}', "5"]])],
    ["another tool", turns(a, [["got", '{"city":"Oslo","unit":"C"}', "4"]])],
    ["a word of the user between", [...turns(a), goal, ...turns(a)]],
    ["a tool that is polled", turns([["poll", "{}", "no"]], [["poll", "{}", "no"]])],
    ["no turn at all", []],
    ["arguments that are no JSON, differing", turns([["get", "{", "4"]], [["get", "{{", "4"]])],
  ])("does not mind %s", (_name, messages) => {
    expect(find(messages)).toBeNull();
  });

  test("finds cycles of up to six turns, with calls made in whatever order", () => {
    expect(find(turns(a, b, a, b))).toMatchObject({ length: 2, rounds: 2 });
    expect(find(turns(c, a, b, a, b, a, b))).toMatchObject({ length: 2, rounds: 3 });
    expect(find(turns([...a, ...b], [...b, ...a]))).toMatchObject({ length: 1, rounds: 2 });
    const six = [1, 2, 3, 4, 5, 6].map((n): Call[] => [["step", `{"n":${n}}`, "ok"]]);
    expect(find(turns(...six, ...six))).toMatchObject({ length: 6, rounds: 2 });
    const seven = [...six, [["step", '{"n":7}', "ok"] as Call]];
    expect(find(turns(...seven, ...seven))).toBeNull();
    expect(find(turns(a, b, c, a, b))).toBeNull();
  });

  test("counts from where a retry began, and to the number asked for", () => {
    const messages = turns(a, a);
    expect(find(messages, { from: 3 })).toBeNull();
    expect(find(messages, { repeats: 3 })).toBeNull();
    expect(find(turns(a, a, a), { repeats: 3 })).toMatchObject({ rounds: 3 });
  });

  test("takes cut results for equal that were kept under different names", () => {
    const cut = (ref: string, text = "x".repeat(200)): Message[] => {
      const messages = turns([["read", "{}", text]]);
      return messages.map((message) =>
        message.role === "tool"
          ? {
              ...message,
              content: `${String(message.content)} [${ref}]`,
              full: { name: ref, runId: "r", ref, chars: 900, bytes: 900, head: 200, tail: 0 },
            }
          : message,
      );
    };
    expect(find([...cut("call-1-1"), ...cut("call-2-1")])).toMatchObject({ rounds: 2 });
    expect(find([...cut("call-1-1"), ...cut("call-2-1", `${"x".repeat(199)}y`)])).toBeNull();
  });

  test("compares cut results with images by both", () => {
    const withImage = (url: string): Message[] =>
      turns([["read", "{}", ""]]).map((message) =>
        message.role === "tool"
          ? {
              ...message,
              content: [
                { type: "text", text: "ab" },
                { type: "image_url", image_url: { url } },
              ],
              full: { name: "n", runId: "r", ref: "n", chars: 9, bytes: 9, head: 1, tail: 1 },
            }
          : message,
      );
    expect(find([...withImage("data:,1"), ...withImage("data:,1")])).toMatchObject({ rounds: 2 });
    expect(find([...withImage("data:,1"), ...withImage("data:,2")])).toBeNull();
  });

  test("compares arguments nested without end as they were written", () => {
    const deep = "[".repeat(200_000) + "]".repeat(200_000);
    expect(find(turns([["get", deep, "4"]], [["get", deep, "4"]]))).toMatchObject({ rounds: 2 });
  });

  test("quotes the result, in words for the model and for people", () => {
    const found = find(turns([["get", "{}", "z".repeat(900)]], [["get", "{}", "z".repeat(900)]]));
    if (!found) throw new Error("not found");
    expect(repetitionNudge(found)).toMatch(/the same call 2 times.*get with \{\}, which gave: z{300}…/s);
    expect(repetitionMessage({ ...found, length: 2 })).toMatch(/the same 2 turns 2 times.*polling/s);
    expect(repetitionNudge({ ...found, length: 2 })).toContain("the same 2 turns");
    expect(repetitionMessage(found)).toContain("the same call");
  });
});
