import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Content } from "../../src/core/message.ts";
import { interpretReply } from "../../src/core/reply.ts";

type Found = { calls: [string, unknown][]; content: Content | null };

/** What becomes of a text: calls by name and arguments, and the content that is kept. */
function read(content: Content, fits?: (call: { name: string; arguments: string }) => boolean): Found | string {
  const answer = interpretReply({
    reply: { content, toolCalls: [] },
    finishReason: "stop",
    turn: 1,
    offered: ["add", "write_file"],
    usedIds: new Set(),
    seed: "run-a",
    fits,
  });
  if (answer.type === "failed") return answer.code;
  const calls = answer.calls.map(({ call }): [string, unknown] => [call.name, JSON.parse(call.arguments)]);
  return { calls, content: answer.content };
}

const add = '{"name": "add", "arguments": {"a": 1}}';
const one: [string, unknown][] = [["add", { a: 1 }]];

describe("calls in the text", () => {
  test.each<[string, string, [string, unknown][], string | null]>([
    ["a tag", `<tool_call>\n${add}\n</tool_call>`, one, null],
    ["a tag after text", `I look.\n<tool_call>${add}</tool_call>`, one, "I look."],
    ["a tag after thinking", `<think>\nhm\n</think>\n<tool_call>${add}</tool_call>`, one, "<think>\nhm\n</think>"],
    ["two tags", `<tool_call>${add}</tool_call>\n<tool_call>${add}</tool_call>`, [...one, ...one], null],
    ["a list in a tag", `<tool_call>[${add},${add}]</tool_call>`, [...one, ...one], null],
    [
      "a closing tag in an argument",
      '<tool_call>{"name":"add","arguments":{"t":"</tool_call>"}}</tool_call>',
      [["add", { t: "</tool_call>" }]],
      null,
    ],
    [
      "an invented result",
      `Look.\n<tool_call>${add}</tool_call>\n<tool_response>-40</tool_response>\nIt is -40.`,
      one,
      "Look.",
    ],
    ["a call built on an invented result", `<tool_call>${add}</tool_call> so <tool_call>${add}</tool_call>`, one, null],
    [
      "function markup in a tag",
      "<tool_call>\n<function=write_file>\n<parameter=path>\nout.txt\n</parameter>\n<parameter=content>\nif a < b:\n  `x`\n</parameter>\n</function>\n</tool_call>",
      [["write_file", { path: "out.txt", content: "if a < b:\n  `x`" }]],
      null,
    ],
    ["function markup", "<function=add><parameter=a>1</parameter></function>", [["add", { a: "1" }]], null],
    ["function markup whose tag is not closed", "<tool_call><function=add></function>", [["add", {}]], null],
    ["function markup whose tag is not opened", "<function=add></function></tool_call>", [["add", {}]], null],
    ["function markup with JSON", '<function=add>{"a":1}</function>', one, null],
    ["function markup with nothing", "<function=add></function>", [["add", {}]], null],
    [
      "key and value tags",
      "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
      [["add", { a: "1" }]],
      null,
    ],
    ["a marker and a list", `[TOOL_CALLS][${add}, ${add}]`, [...one, ...one], null],
    [
      "a marker, a name and an object",
      '[TOOL_CALLS] add[ARGS]{"a": {"b": "]}"}} and more',
      [["add", { a: { b: "]}" } }]],
      null,
    ],
    ["a python tag", `<|python_tag|> {"name": "add", "parameters": {"a": 1}}`, one, null],
    [
      "DeepSeek's tokens",
      '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{"a": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
      [...one, ...one],
      null,
    ],
    [
      "Kimi's tokens",
      '<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|><|tool_calls_section_end|>',
      one,
      null,
    ],
    ["bare JSON", add, one, null],
    ["fenced JSON", `\`\`\`json\n${add}\n\`\`\``, one, null],
    ["bare JSON after thinking", `<think>hm</think>${add}`, one, null],
    [
      "JSON in the protocol's own form",
      '{"id":"x","type":"function","function":{"name":"add","arguments":"{\\"a\\":1}"}}',
      one,
      null,
    ],
    [
      "a name that may lose its namespace",
      '<tool_call>{"name":"functions.add","arguments":{"a":1}}</tool_call>',
      one,
      null,
    ],
  ])("%s", (...[, text, calls, content]) => {
    expect(read(text)).toEqual({ calls, content });
  });

  test("parts of other kinds are kept, text parts lose the call", () => {
    const thinking = { type: "thinking", thinking: "hm" };
    const said = (text: string): Content => [thinking, { type: "text", text }];
    expect(read(said(`Look. <tool_call>${add}</tool_call>`))).toEqual({
      calls: one,
      content: [thinking, { type: "text", text: "Look." }],
    });
    expect(read(said(add))).toEqual({ calls: one, content: [thinking] });
    expect(read([{ type: "text", text: add, annotations: [] }])).toEqual({ calls: one, content: null });
  });
});

describe("text that stays text", () => {
  test.each<[string, string]>([
    ["a tag that is not closed", `<tool_call>${add}`],
    ["arguments that are cut", '<tool_call>{"name":"add","arguments":{"a"</tool_call>'],
    ["function markup that is not closed", "<function=add><parameter=a>1</parameter>"],
    ["function markup in a tag that is not closed", "<tool_call><function=add><parameter=a>1"],
    ["a marker and a list that is not closed", `[TOOL_CALLS][${add}`],
    ["a marker and prose", "[TOOL_CALLS] is what Mistral writes"],
    ["a marker and other JSON", "[TOOL_CALLS][1]"],
    ["a python tag and code", "<|python_tag|>print(1)"],
    [
      "tokens without an end",
      '<|tool_calls_section_begin|><|tool_call_begin|>add<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>',
    ],
    ["tokens around nothing", "<|tool_calls_section_begin|><|tool_calls_section_end|>"],
    ["tokens around prose", "<|tool_calls_section_begin|>hm<|tool_calls_section_end|>"],
    ["a tool that is not offered", '<tool_call>{"name":"subtract","arguments":{}}</tool_call>'],
    ["one call in a list that is not offered", `<tool_call>[${add},{"name":"subtract","arguments":{}}]</tool_call>`],
    ["an empty list", "<tool_call>[]</tool_call>"],
    ["no call in a tag", "<tool_call>!</tool_call>"],
    ["a name and prose in a tag", "<tool_call>add one and two</tool_call>"],
    ["JSON without arguments", '{"name":"add"}'],
    ["JSON about something else", '{"name":"add","arguments":{},"price":5}'],
    ["JSON of numbers", "[1, 2]"],
    ["a JSON call among prose", `Send ${add} to call it.`],
    ["a block in a fence", `Like this:\n\`\`\`\n<tool_call>${add}</tool_call>\n\`\`\`\nDone.`],
    ["a block in a fence that is not closed", `Like this:\n\`\`\`\n<tool_call>${add}</tool_call>`],
    ["a block in inline code", `Write \`<tool_call>${add}</tool_call>\` to call.`],
    ["arguments that are no object", '<tool_call>{"name":"add","arguments":[1]}</tool_call>'],
  ])("%s", (_, text) => {
    expect(read(text)).toEqual({ calls: [], content: text });
  });

  test("a block in a think block", () => {
    expect(read(`<think><tool_call>${add}</tool_call></think>Five.`)).toMatchObject({ calls: [] });
    expect(read(`<think><tool_call>${add}</tool_call>`)).toBe("empty_answer");
  });

  test("arguments that do not fit the tool", () => {
    expect(read(add, () => false)).toEqual({ calls: [], content: add });
    expect(read(add, ({ name, arguments: args }) => name === "add" && args === '{"a":1}')).toMatchObject({
      calls: one,
    });
  });

  test("text beside a structured call", () => {
    const answer = interpretReply({
      reply: { content: `<tool_call>${add}</tool_call>`, toolCalls: [{ id: "c", name: "add", arguments: '{"a":2}' }] },
      finishReason: "tool_calls",
      turn: 1,
      offered: ["add"],
      usedIds: new Set(),
      seed: "run-a",
    });
    expect(answer).toMatchObject({ calls: [{ call: { arguments: '{"a":2}' } }] });
    expect(answer.type === "answer" && answer.calls).toHaveLength(1);
  });

  test("what stands before a real block is no cover for it", () => {
    const text = `Not \`<tool_call>\` but <tool_call>nonsense!</tool_call> or\n<tool_call>${add}</tool_call>`;
    expect(read(text)).toMatchObject({ calls: one });
  });
});

test.each<[string, string]>([
  ["inline code", "`x` ".repeat(50_000)],
  ["openings", "<tool_call>".repeat(20_000)],
  ["blocks of nonsense", "<tool_call>!</tool_call>".repeat(20_000)],
  ["markup that is never closed", "<function=add>".repeat(20_000)],
  ["brackets", `[TOOL_CALLS]${"[".repeat(200_000)}`],
])("a long text of %s is read in good time", (_, text) => {
  const beganAt = performance.now();
  expect(read(`${text} [TOOL_CALLS]`)).toMatchObject({ calls: [] });
  expect(performance.now() - beganAt).toBeLessThan(2_000);
});

test("never throws, whatever is written", () => {
  const pieces = [
    "<tool_call>",
    "</tool_call>",
    "<function=add>",
    "</function>",
    "[TOOL_CALLS]",
    "```",
    "`",
    "<think>",
    "</think>",
    add,
    "{",
    "]",
    '"',
    "<|python_tag|>",
    "add",
    "\n",
  ];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 12 }), (list) => {
      const result = read(list.join(""));
      expect(typeof result === "string" || result.calls.every(([name]) => name === "add")).toBe(true);
    }),
    { numRuns: 3_000 },
  );
});
