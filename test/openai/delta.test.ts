import { describe, expect, test } from "vitest";
import { createAccumulator } from "../../src/openai/accumulator.ts";
import { createBodyReader } from "../../src/openai/body-reader.ts";
import { errorOf, merge, readCallDelta } from "../../src/openai/delta.ts";
import { readUsage } from "../../src/openai/usage.ts";

describe("pieces of calls", () => {
  test.each<[string, unknown, unknown]>([
    ["flat", { id: "a", name: "add", arguments: "{}" }, { id: "a", name: "add", arguments: "{}", extra: {} }],
    [
      "numbered with text",
      { index: "2", function: { name: "add" } },
      { index: 2, name: "add", arguments: "", extra: {} },
    ],
    [
      "with parameters",
      { function: { name: "add", parameters: { x: 1 } } },
      { name: "add", arguments: '{"x":1}', extra: {} },
    ],
    ["none", 5, undefined],
  ])("%s", (_, raw, expected) => {
    expect(readCallDelta(raw, undefined)).toEqual(expected);
  });

  test("a name in pieces is joined to that of a tool; a name of a tool stands", () => {
    const read = (...names: string[]): string[] => {
      const accumulator = createAccumulator(new Set(["get_weather", "ping"]));
      for (const name of names)
        accumulator.addChunk({ choices: [{ delta: { tool_calls: [{ index: 0, function: { name } }] } }] });
      return accumulator.result().reply.toolCalls.map(({ name }) => name);
    };
    expect(read("get_", "weather")).toEqual(["get_weather"]);
    expect(read("get_", "get_weather")).toEqual(["get_weather"]);
    expect(read("ping", "get_weather")).toEqual(["ping", "get_weather"]);
    expect(read("pi", "other")).toEqual(["pi", "other"]);
  });
});

test("pieces of signed reasoning are joined by their number", () => {
  const first = [{ type: "reasoning.text", index: 0, text: "I ", signature: null }];
  const second = [{ type: "reasoning.text", index: 0, text: "look", signature: "s" }];
  expect(merge(first, second)).toEqual([{ type: "reasoning.text", index: 0, text: "I look", signature: "s" }]);
  const other = [{ type: "reasoning.encrypted", index: 0, data: "d" }];
  expect(merge(first, other)).toEqual([...first, ...other]);
});

test.each<[Record<string, unknown>, unknown]>([
  [{ error: "x" }, "x"],
  [
    { type: "error", message: "x" },
    { type: "error", message: "x" },
  ],
  [{ detail: "x" }, "x"],
  [{ detail: "x", choices: [] }, undefined],
  [{ base_resp: { status_code: 1002, status_msg: "slow" } }, { code: 1002, message: "slow" }],
  [{ base_resp: { status_code: 0, status_msg: "fine" } }, undefined],
  [
    { success: false, msg: "busy" },
    { code: undefined, message: "busy" },
  ],
  [{ message: "hello" }, undefined],
])("%j is an error: %j", (body, error) => {
  expect(errorOf(body)).toEqual(error);
});

test.each<[unknown, unknown]>([
  [
    { prompt_tokens: "50", completion_tokens: "7" },
    { inputTokens: 50, outputTokens: 7, cachedTokens: 0 },
  ],
  [
    { prompt_tokens: 50, total_tokens: 57 },
    { inputTokens: 50, outputTokens: 7, cachedTokens: 0 },
  ],
  [{ prompt_tokens: 50, total_tokens: 7 }, undefined],
  [{ prompt_tokens: -1, completion_tokens: 7 }, undefined],
])("usage %j", (raw, usage) => {
  expect(readUsage(raw)).toEqual(usage);
});

describe("bodies", () => {
  const read = (text: string): { end: unknown; content: unknown } => {
    const reader = createBodyReader(
      () => {},
      () => {},
    );
    reader.feed(new TextEncoder().encode(text));
    const end = reader.close();
    return { end, content: reader.result().reply.content };
  };
  const line = (content: string, finish: string | null = null): string =>
    JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: finish }] });

  test("chunks one to a line", () => {
    expect(read(`${line("Hel")}\n${line("lo", "stop")}\n`)).toEqual({ end: { type: "finished" }, content: "Hello" });
    expect(read(`${line("Hel")}\n${line("lo")}\n`).end).toMatchObject({ type: "cut" });
  });

  test("nesting without sense is no answer", () => {
    const deep = `{"choices":[{"message":{"content":"x","extra":${"[".repeat(5_000)}${"]".repeat(5_000)}}}]}`;
    expect(read(deep).end).toMatchObject({ type: "cut" });
    expect(read(`data: ${deep}\n\n`).end).toMatchObject({ type: "cut" });
    const wide = JSON.stringify({
      choices: [{ message: { content: "x", list: Array(2_000).fill([]) }, finish_reason: "stop" }],
    });
    expect(read(wide).end).toEqual({ type: "finished" });
  });
});
