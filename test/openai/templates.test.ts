import { describe, expect, test } from "vitest";
import { fitTemplate, refusedByTemplate } from "../../src/openai/templates.ts";

const system = { role: "system", content: "Be brief." };
const user = { role: "user", content: "Hi." };
const call = (id: string): Record<string, unknown> => ({
  id,
  type: "function",
  function: { name: "ping", arguments: "{}" },
});
const result = (id: string): Record<string, unknown> => ({ role: "tool", tool_call_id: id, content: id });
const both = { role: "assistant", content: null, tool_calls: [call("a"), call("b")], reasoning: "hm" };

describe("what a template refuses", () => {
  const messages = [system, user, both];
  test.each<[string, string, string[]]>([
    ["System role not supported", "the system role", ["role.system"]],
    ["this model does not support system messages", "the same in other words", ["role.system"]],
    ["This model only supports single tool-calls at once!", "several calls", ["calls.single"]],
    ["parallel tool calls are not supported", "the same in other words", ["calls.single"]],
    ["max_tokens: Field required", "a limit that is missing", ["max_tokens+"]],
    ["Something else", "nothing", []],
  ])("%s: %s", (message, _, found) => {
    expect(refusedByTemplate({ message }, {}, messages)).toEqual(found);
  });

  test("what was not sent cannot have been refused", () => {
    expect(refusedByTemplate({ message: "System role not supported" }, {}, [user])).toEqual([]);
    expect(refusedByTemplate({ message: "only one tool call" }, {}, [user])).toEqual([]);
    expect(refusedByTemplate({ message: "max_tokens required" }, { max_tokens: 5 }, [user])).toEqual([]);
  });
});

describe("what is sent then", () => {
  const fit = (messages: unknown[], ...quirks: string[]): unknown =>
    fitTemplate({ messages }, new Set(quirks)).messages;

  test("what the system says is part of what the user says first", () => {
    expect(fit([system, user], "role.system")).toEqual([{ role: "user", content: "Be brief.\n\nHi." }]);
    const parts = [{ type: "text", text: "Hi." }];
    expect(fit([system, { role: "user", content: parts }], "role.system")).toEqual([
      { role: "user", content: [{ type: "text", text: "Be brief." }, ...parts] },
    ]);
    expect(fit([system], "role.system")).toEqual([{ role: "user", content: "Be brief." }]);
    expect(fit([user], "role.system")).toEqual([user]);
  });

  test("calls go one by one, each with its result behind it", () => {
    expect(fit([user, both, result("a"), result("b"), user], "calls.single")).toEqual([
      user,
      { ...both, tool_calls: [call("a")] },
      result("a"),
      { role: "assistant", content: null, tool_calls: [call("b")] },
      result("b"),
      user,
    ]);
    const alone = { ...both, tool_calls: [call("a")] };
    expect(fit([alone, result("a")], "calls.single")).toEqual([alone, result("a")]);
  });

  test("a limit is given unless there is one", () => {
    expect(fitTemplate({ messages: [] }, new Set(["max_tokens+"]))).toHaveProperty("max_tokens", 4_096);
    const limited = { messages: [], max_completion_tokens: 9 };
    expect(fitTemplate(limited, new Set(["max_tokens+"]))).toEqual(limited);
  });
});
