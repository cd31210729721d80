// Catches: a start whose input holds calls without results, which would make a transcript that no provider takes.
import { describe, expect, test } from "vitest";
import { problemsOfCommand } from "../../src/core/command.ts";
import {
  type InputMessage,
  inputSchema,
  type Message,
  messageSchema,
  toInputMessages,
} from "../../src/core/message.ts";

const call = (id: string) => ({ id, name: "look", arguments: '{"at":"sky"}' });
const asked = (...ids: string[]): InputMessage => ({ role: "assistant", content: "", toolCalls: ids.map(call) });
const result = (toolCallId: string): InputMessage => ({ role: "tool", toolCallId, content: `of ${toolCallId}` });
const user: InputMessage = { role: "user", content: "go on" };

describe("input with calls of earlier turns", () => {
  test("becomes messages in which every call is answered under our name for it", () => {
    const input = [user, asked("a", "b"), result("a"), result("b"), asked("a"), result("a"), user];
    const messages = toInputMessages(inputSchema.parse(input));
    expect(messages.map((message) => messageSchema.parse(message))).toEqual(messages);
    expect(messages.flatMap((message) => (message.role === "tool" ? [[message.callId, message.content]] : []))).toEqual(
      [
        ["given-1-1", "of a"],
        ["given-1-2", "of b"],
        ["given-2-1", "of a"],
      ],
    );
    expect(messages[1]).toMatchObject({
      toolCalls: [
        { callId: "given-1-1", id: "a" },
        { callId: "given-1-2", id: "b" },
      ],
    });
  });

  test("may hold answers without calls between them", () => {
    const input = [user, { role: "assistant", content: "hello" }, user];
    expect(toInputMessages(inputSchema.parse(input))).toEqual(input);
  });

  test.each([
    ["a call without a result", [asked("a")]],
    ["a call followed by something else", [asked("a"), user, result("a")]],
    ["results in another order", [asked("a", "b"), result("b"), result("a")]],
    ["a result without a call", [user, result("a")]],
    ["a result too many", [asked("a"), result("a"), result("a")]],
    ["a result that names no call", [asked("a"), { role: "tool", content: "x" }]],
    ["a user's call", [{ role: "user", content: "x", toolCalls: [call("a")] }, result("a")]],
    ["a user's message that names a call", [{ role: "user", content: "x", toolCallId: "a" }]],
    ["an empty list of calls", [{ role: "assistant", content: "x", toolCalls: [] }]],
  ])("is refused for %s", (_what, input) => {
    expect(inputSchema.safeParse(input).success).toBe(false);
  });
});

test("input for a run that goes on is taken with all that a start takes, as the messages that it becomes", () => {
  const take = (messages: Message[]): string[] =>
    problemsOfCommand({ type: "input_received", inputId: "i", messages, by: "ann" });
  const said: InputMessage = { role: "assistant", content: "hello" };
  const messages = toInputMessages([user, said, asked("a", "b"), result("a"), result("b"), user]);
  expect(take(messages)).toEqual([]);
  expect(take(messages.slice(0, 4))).toEqual([expect.stringContaining("must be followed by the result of call b")]);
});
