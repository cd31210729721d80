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

function readCount(text: string): number | string {
  const found = read(text);
  return typeof found === "string" ? found : found.calls.length;
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
    ["a tag with two calls", `<tool_call>\n${add}\n${add}</tool_call>`, [...one, ...one], null],
    ["a tag with a Python dict", "<tool_call>{'name': 'add', 'arguments': {'a': 1}}</tool_call>", one, null],
    ["a tag with a fence", `<tool_call>\n\`\`\`json\n${add}\n\`\`\`\n</tool_call>`, one, null],
    ["another tag", `<tools>${add}</tools>`, one, null],
    ["a tag with a call that needs no arguments", '<tool_call>{"name":"add"}</tool_call>', [["add", {}]], null],
    ["function markup with JSON in its tag", '<function=add={"a":1}</function>', one, null],
    ["the same with parentheses", '<function=add({"a":1})</function>', one, null],
    [
      "function markup with its end in a value",
      "<function=write_file><parameter=content></function></parameter></function>",
      [["write_file", { content: "</function>" }]],
      null,
    ],
    [
      "invocations in a wrapper",
      'Look.\n<function_calls>\n<invoke name="add">\n<parameter name="a">1</parameter>\n</invoke>\n<invoke name="add"></invoke></function_calls>',
      [
        ["add", { a: "1" }],
        ["add", {}],
      ],
      "Look.",
    ],
    ["an invocation alone", '<invoke name="add"></invoke> so', [["add", {}]], null],
    ["MiniMax's wrapper", '<minimax:tool_call><invoke name="add"></invoke></minimax:tool_call>', [["add", {}]], null],
    [
      "DeepSeek's markup",
      '<｜DSML｜function_calls><｜DSML｜invoke name="add"><｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>',
      [["add", { a: "1" }]],
      null,
    ],
    [
      "a call without a section",
      '<|tool_call_begin|>add<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>',
      one,
      null,
    ],
    ["a marker and functools", `functools[${add}]`, one, null],
    ["a marker and an end", `<|tool_call|>[${add}]<|/tool_call|>`, one, null],
    ["a name between arrows", 'Look.\n>>>add\n{"a": 1}', one, "Look."],
    ["an action", 'Action: add\nAction Input: {"a": 1}\nObservation: 7', one, null],
    ["an action in a fence", 'Action: ```json\n[{"tool_name": "add", "parameters": {"a": 1}}]\n```', one, null],
    ["a channel", '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": 1}<|call|>', one, null],
    [
      "a channel and another order",
      '<|start|>assistant to=functions.add<|channel|>commentary json<|message|>{"a": 1}',
      one,
      null,
    ],
    ["Python between tags", "<|python_start|>[add(a=1), add(a=1)]<|python_end|>", [...one, ...one], null],
    ["Python in its fence", "```tool_code\nadd(a=1)\nadd(a=1,)\n```", [...one, ...one], null],
    ["Python that prints", "```tool_code\nprint(default_api.add(a=1))\n```", one, null],
    ["a list of Python calls", "[add(a=1)]", one, null],
    ["JSON in the fence for calls", `\`\`\`tool_call\n${add}\n\`\`\``, one, null],
    ["bare calls with a semicolon", `${add}; ${add}`, [...one, ...one], null],
    ["a bare list of calls", `{"tool_calls": [${add}]}`, one, null],
    ["other names of the halves", '{"tool": "add", "args": {"a": 1}}', one, null],
    [
      "JSON in the protocol's form in a tag",
      `<tool_call>{"type":"function","id":"x","function":${add}}</tool_call>`,
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
    ["a marker and prose", "[TOOL_CALLS] is what Mistral writes"],
    ["a marker and other JSON", "[TOOL_CALLS][1]"],
    ["a python tag and code", "<|python_tag|>print(1)"],
    ["tokens around nothing", "<|tool_calls_section_begin|><|tool_calls_section_end|>"],
    ["tokens around prose", "<|tool_calls_section_begin|>hm<|tool_calls_section_end|>"],
    ["a tool that is not offered", '<tool_call>{"name":"subtract","arguments":{}}</tool_call>'],
    ["an empty list", "<tool_call>[]</tool_call>"],
    ["no call in a tag", "<tool_call>!</tool_call>"],
    ["a name and prose in a tag", "<tool_call>add one and two</tool_call>"],
    ["JSON without arguments", '{"name":"add"}'],
    ["JSON with two names", '{"name":"add","tool":"add","arguments":{}}'],
    ["an empty call list", '{"tool_calls":[]}'],
    ["a list of calls and others", `[${add}, 1]`],
    ["Python calls without names", "[add(1)]"],
    ["Python that is not closed", "[add(a=1]"],
    ["Python that is no call", "[add]"],
    ["an empty Python list", "```tool_code\n[]\n```"],
    ["a name between arrows and prose", ">>>add\nis it"],
    ["a wrapper of nothing", '{"tool_calls":5}'],
    ["JSON with no name", '<tool_call>{"arguments":{"a":1}}</tool_call>'],
    ["a fence without an end", "Action: ```json\n[1]"],
    ["a fence of the wrong kind", "Action: ```json\n[1]\n```"],
    ["an action without input", "Action: add\nand so on"],
    ["a block in tildes", `Like this:\n~~~\n<tool_call>${add}</tool_call>\n~~~\nDone.`],
    [
      "a block in a longer fence",
      `Like this:\n\`\`\`\`\n\`\`\`\nx\n\`\`\`\n<tool_call>${add}</tool_call>\n\`\`\`\`\nDone.`,
    ],
    ["a block in code of two lines", `So \`<tool_call>\n${add}</tool_call>\` it is.`],
    ["a block in code between doubled marks", `So \`\`<tool_call>${add}</tool_call> \` \`\` it is.`],
    ["a block in a quotation", `He said:\n> <tool_call>${add}</tool_call>\n\nDone.`],
    ["a block in a comment", `<!-- <tool_call>${add}</tool_call> --> Done.`],
    [
      "a call inside tokens without a section's end",
      "so <|tool_calls_section_begin|>hm <|tool_call_begin|>hm<|tool_call_end|>",
    ],
    ["tokens that are not closed", "<|tool_call_begin|>hm"],
    ["a tag for markup without a name", "<function=>x</function>"],
    ["JSON about something else", '{"name":"add","arguments":{},"price":5}'],
    ["JSON of numbers", "[1, 2]"],
    ["a JSON call among prose", `Send ${add} to call it.`],
    ["a block in a fence", `Like this:\n\`\`\`\n<tool_call>${add}</tool_call>\n\`\`\`\nDone.`],
    ["a block in a fence that is not closed", `Like this:\n\`\`\`\n<tool_call>${add}</tool_call>`],
    ["a block in inline code", `Write \`<tool_call>${add}</tool_call>\` to call.`],
  ])("%s", (_, text) => {
    expect(read(text)).toEqual({ calls: [], content: text });
  });

  test("a block in a think block", () => {
    expect(read(`<think><tool_call>${add}</tool_call></think>Five.`)).toMatchObject({ calls: [] });
    expect(read(`<think><tool_call>${add}</tool_call>`)).toBe("empty_answer");
    expect(read(`Maybe <tool_call>${add}</tool_call></think>Five.`)).toMatchObject({ calls: [] });
    expect(read(`[THINK][TOOL_CALLS][${add}][/THINK]Five.`)).toMatchObject({ calls: [] });
    expect(read(`hm</think>${add}`)).toMatchObject({ calls: one });
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

describe("calls that are not certain: nothing is kept, the same is asked again", () => {
  test.each<[string, string]>([
    ["a tag that is not closed", `<tool_call>${add}`],
    ["arguments that are cut", '<tool_call>{"name":"add","arguments":{"a"</tool_call>'],
    ["function markup that is not closed", "<function=add><parameter=a>1</parameter>"],
    ["function markup in a tag that is not closed", "<tool_call><function=add><parameter=a>1"],
    ["a marker and a list that is not closed", `[TOOL_CALLS][${add}`],
    ["one call in a list that is not offered", `<tool_call>[${add},{"name":"subtract","arguments":{}}]</tool_call>`],
    ["arguments that are no object", '<tool_call>{"name":"add","arguments":[1]}</tool_call>'],
    [
      "tokens without an end",
      '<|tool_calls_section_begin|><|tool_call_begin|>add<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>',
    ],
    ["a parameter that is not closed", "<function=add><parameter=a>1</function>"],
    [
      "a parameter that is given twice",
      "<function=add><parameter=a>1</parameter><parameter=a>2</parameter></function>",
    ],
    [
      "a key that is given twice",
      "<tool_call>add<arg_key>a</arg_key><arg_value>1</arg_value><arg_key>a</arg_key><arg_value>2</arg_value></tool_call>",
    ],
    ["markup without an end in its wrapper", '<function_calls><invoke name="add"><parameter name="a">1</parameter>'],
    ["markup without a wrapper and an end", '<invoke name="add"><parameter name="a">1</parameter>'],
    ["markup around prose", '<invoke name="add">one</invoke>'],
    [
      "markup that says a thing twice",
      '<invoke name="add"><parameter name="a">1</parameter><parameter name="a">2</parameter></invoke>',
    ],
    ["a name and an object that is not closed", '[TOOL_CALLS]add{"a": 1'],
    ["a fence for calls that is not closed", "```tool_code\nadd(a=1"],
  ])("%s", (_, text) => {
    expect(read(text)).toBe("unclear_call");
  });

  test("a block that can be read goes before one that cannot", () => {
    expect(read(`<tool_call>{"name":"add" or\n<tool_call>${add}</tool_call>`)).toMatchObject({ calls: one });
  });
});

test.each<[string, string]>([
  ["inline code", "`x` ".repeat(50_000)],
  ["openings", "<tool_call>".repeat(20_000)],
  ["blocks of nonsense", "<tool_call>!</tool_call>".repeat(20_000)],
  ["markup that is never closed", "<function=add>".repeat(20_000)],
  ["wrappers", `${'{"function":'.repeat(100_000)}{}${"}".repeat(100_000)}`],
  ["brackets", `[TOOL_CALLS]${"[".repeat(200_000)}`],
])("a long text of %s is read in good time", (_, text) => {
  const beganAt = performance.now();
  expect(["unclear_call", 0]).toContain(readCount(`${text} [TOOL_CALLS]`));
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
