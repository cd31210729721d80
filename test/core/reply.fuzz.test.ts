// Would catch a reply that crashes a step, a call that nobody made, and one taken out of prose, code or thoughts.
// 2,000 cases of each kind; DROVER_FUZZ_RUNS says otherwise.
import fc from "fast-check";
import { expect, test } from "vitest";
import { type InterpretedReply, interpretReply, type ModelReply } from "../../src/core/reply.ts";
import { fuzzRuns, fuzzTimeoutMs, leavesOf, mutated, plainArguments } from "../support/fuzz.ts";

const offered = ["add", "get_weather", "files.read", "Upper"];
const names = fc.constantFrom(
  ...offered,
  "functions.add",
  "ADD ",
  "add<|channel|>json",
  "sub",
  "get-weather",
  "files_read",
  "",
);

function read(reply: Partial<ModelReply>, finishReason = "stop"): InterpretedReply {
  return interpretReply({
    reply: { content: null, toolCalls: [], ...reply },
    finishReason,
    turn: 2,
    offered,
    usedIds: new Set(["used"]),
    seed: "run-f",
  });
}

type Calls = { name: string; args: Record<string, unknown>; problem: boolean }[];

/** The calls of an answer, after what must hold for every answer: what is kept can be stored and replayed. */
function expectSound(answer: InterpretedReply): Calls {
  if (answer.type === "failed") return [];
  expect(JSON.parse(JSON.stringify(answer.content))).toEqual(answer.content);
  const ids = answer.calls.map(({ call }) => call.id);
  expect(new Set([...ids, "used"]).size).toBe(ids.length + 1);
  return answer.calls.map(({ call, problem }, index) => {
    expect(call.callId).toBe(`call-2-${index + 1}`);
    expect(call.id.trim() === "" || call.name === "").toBe(false);
    const args = JSON.parse(call.arguments) as Record<string, unknown>;
    expect(Object.prototype.toString.call(args)).toBe("[object Object]");
    return { name: call.name, args, problem: problem !== undefined };
  });
}

const json = (value: unknown): string => JSON.stringify(value);
type Writing = (name: string, args: Record<string, unknown>) => string;
const parameters = (args: Record<string, unknown>, write: (key: string, value: string) => string): string =>
  Object.entries(args)
    .map(([key, value]) => write(key, typeof value === "string" ? value : json(value)))
    .join("\n");

/** The notations in which a call can be written so that nothing of it is lost. */
const exact: Writing[] = [
  (name, args) => `<tool_call>\n${json({ name, arguments: args })}\n</tool_call>`,
  (name, args) => `<tool_call>\n\`\`\`json\n${json({ arguments: args, name })}\n\`\`\`\n</tool_call>`,
  (name, args) => `<tools>${json({ name, parameters: args })}</tools>`,
  (name, args) => `[TOOL_CALLS][${json({ name, arguments: args })}]`,
  (name, args) => `[TOOL_CALLS]${name}[ARGS]${json(args)}`,
  (name, args) => `<|python_tag|>${json({ name, parameters: args })}`,
  (name, args) => `functools[${json({ name, arguments: args })}]`,
  (name, args) => `<|START_ACTION|>[${json({ tool_name: name, parameters: args })}]<|END_ACTION|>`,
  (name, args) =>
    `<|tool_calls_section_begin|><|tool_call_begin|>functions.${name}:0<|tool_call_argument_begin|>${json(args)}<|tool_call_end|><|tool_calls_section_end|>`,
  (name, args) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n${json(args)}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  (name, args) => `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${json(args)}<|call|>`,
  (name, args) => `<function=${name}>${json(args)}</function>`,
];
/** Others, which hold values as raw text or need their own line. */
const raw: Writing[] = [
  (name, args) =>
    `<function=${name}>\n${parameters(args, (key, value) => `<parameter=${key}>\n${value}\n</parameter>`)}\n</function>`,
  (name, args) =>
    `<function_calls><invoke name="${name}">${parameters(args, (key, value) => `<parameter name="${key}">${value}</parameter>`)}</invoke></function_calls>`,
  (name, args) =>
    `<tool_call>${name}\n${parameters(args, (key, value) => `<arg_key>${key}</arg_key><arg_value>${value}</arg_value>`)}</tool_call>`,
  (name, args) => `\n>>>${name}\n${json(args)}`,
  (name, args) => `\nAction: ${name}\nAction Input: ${json(args)}`,
  (name, args) =>
    `\n\`\`\`tool_code\n${name.replace(".", "_")}(${Object.entries(args)
      .map(([key, value]) => `${key}=${json(value)}`)
      .join(", ")})\n\`\`\`\n`,
];
const written = (writings: Writing[], args = plainArguments): fc.Arbitrary<string> =>
  fc
    .tuple(fc.constantFrom(...writings), fc.constantFrom(...offered), args)
    .map(([write, name, value]) => write(name, value));

/** Ways to speak of a call without making one. */
const covers: ((block: string) => string)[] = [
  (block) => `\n~~~~\n${block}\n~~~~\n`,
  (block) => `\n\`\`\`\`text\n${block}\n\`\`\`\`\n`,
  (block) => `<think>${block}</think>`,
  (block) => `<reasoning>\n${block}\n</reasoning>`,
  (block) => `[THINK]${block}[/THINK]`,
  (block) => `<|channel|>analysis<|message|>${block.replaceAll("<|", "(")}<|end|>`,
  (block) => `<!-- ${block} -->`,
];
const prose = fc.constantFrom(
  "I look. ",
  "Well,\n",
  "a < b and {c}\n\n",
  "use `add` \n",
  "“so” it's\n",
  "1. one\n",
  "Zürich 😀 ",
  "",
);
const trap = { trap: "never" };
const covered = fc
  .tuple(fc.constantFrom(...covers), written([...exact, ...raw], fc.constant(trap)))
  .map(([cover, block]) => cover(block));

test("a written call is read as it was written, whatever stands around it", { timeout: fuzzTimeoutMs }, () => {
  const around = fc.array(fc.oneof(prose, covered), { maxLength: 4 }).map((pieces) => pieces.join(""));
  const call = fc.tuple(fc.constantFrom(...exact), fc.constantFrom(...offered), plainArguments);
  fc.assert(
    fc.property(around, call, around, (before, [write, name, args], after) => {
      const calls = expectSound(read({ content: `${before}\n${write(name, args)}${after}` }));
      expect(calls).toEqual([{ name, args, problem: false }]);
    }),
    { numRuns: fuzzRuns },
  );
});

test("nothing is called out of prose, code, quotations or thoughts", { timeout: fuzzTimeoutMs }, () => {
  const inline = written(exact, fc.constant(trap))
    .filter((block) => !block.includes("`"))
    .map((block) => ` \`${block}\` `);
  const quotation = written(exact, fc.constant(trap)).map((block) => `\n> ${block.replaceAll("\n", "\n> ")}\n\n`);
  const pieces = fc.array(fc.oneof(prose, covered, inline, quotation), { minLength: 1, maxLength: 6 });
  const open = fc.constantFrom("", `<think>${exact[0]?.("add", trap)}`, `\n~~~~\n${exact[0]?.("add", trap)}`);
  fc.assert(
    fc.property(pieces, open, (list, end) => {
      expect(expectSound(read({ content: list.join("") + end }))).toEqual([]);
    }),
    { numRuns: fuzzRuns },
  );
});

test("of a mutilated text nothing is called that does not stand in it", { timeout: fuzzTimeoutMs }, () => {
  const inserts = [
    "<tool_call>",
    "</tool_call>",
    "```",
    "`",
    "<think>",
    "</think>",
    "{",
    "}",
    "[",
    "]",
    '"',
    "'",
    ",",
    ":",
    "\n",
    "=",
    "add",
    "<function=add>",
    "[TOOL_CALLS]",
    "<|",
    "//",
  ];
  const text = fc
    .array(fc.oneof(prose, covered, written(exact), written(raw)), { maxLength: 4 })
    .map((list) => list.join(""));
  fc.assert(
    fc.property(mutated(text, inserts), (content) => {
      for (const { name, args } of expectSound(read({ content }))) {
        expect(offered).toContain(name);
        expect(content.toLowerCase().replace("files_read", "files.read")).toContain(name.toLowerCase());
        // A line break in markup and the mark of a quotation may be taken off.
        for (const leaf of leavesOf(args)) expect(content).toContain(leaf);
      }
    }),
    { numRuns: fuzzRuns },
  );
});

test("a structured call keeps its tool and its arguments, or the model is told", { timeout: fuzzTimeoutMs }, () => {
  const spellings: ((args: Record<string, unknown>) => string)[] = [
    json,
    (args) => json(json(args)),
    (args) => `\`\`\`json\n${json(args)}\n\`\`\``,
    (args) => `{}${json(args)}`,
    (args) => json(args).replaceAll("true", "True").replaceAll("null", "None").replaceAll("false", "False"),
    (args) => json(args).replace(/\}$/, Object.keys(args).length > 0 ? ",}" : "}"),
    (args) => `// so\n${json(args)}<|im_end|>`,
    (args) => `[${json(args)}]`,
  ];
  const call = fc.tuple(fc.constantFrom(...spellings), fc.constantFrom(...offered), plainArguments);
  fc.assert(
    fc.property(fc.array(call, { minLength: 1, maxLength: 3 }), (sent) => {
      const toolCalls = sent.map(([spell, name, args]) => ({ id: "same", name, arguments: spell(args) }));
      const expected = sent.map(([, name, args]) => ({ name, args, problem: false }));
      expect(expectSound(read({ toolCalls }))).toEqual(expected);
    }),
    { numRuns: fuzzRuns },
  );
});

test("of mutilated calls none is added and none is changed unseen", { timeout: fuzzTimeoutMs }, () => {
  const inserts = ["{", "}", "[", "]", '"', "'", ",", ":", "\n", "=>", "//", "#", "“", "”", "None", "NaN", "1e9", "\0"];
  const call = fc.record({
    id: fc.constantFrom(undefined, "", " ", "used", "c1", "c 2"),
    name: names,
    arguments: mutated(plainArguments.map(json), inserts),
  });
  const finish = fc.constantFrom(
    "stop",
    "tool_calls",
    "length",
    "SAFETY",
    "x: MALFORMED_FUNCTION_CALL",
    "",
    "constructor",
  );
  fc.assert(
    fc.property(fc.array(call, { maxLength: 3 }), finish, (toolCalls, finishReason) => {
      const calls = expectSound(read({ toolCalls }, finishReason));
      const sent = toolCalls.map((given) => given.arguments).join("\n");
      expect(calls.length).toBeLessThanOrEqual(toolCalls.length);
      for (const { args, problem } of calls) {
        if (problem) expect(args).toEqual({});
        const known = leavesOf(args).filter((leaf) => !["null", "true", "false"].includes(leaf));
        for (const leaf of known) expect(hasLeaf(sent, leaf)).toBe(true);
      }
    }),
    { numRuns: fuzzRuns },
  );
});

/** A number may have been spelled otherwise. */
function hasLeaf(text: string, leaf: string): boolean {
  if (text.includes(leaf)) return true;
  return [...text.matchAll(/[+-]?\.?\d[\d.eE+-]*/g)].some(([number]) => Number(number) === Number(leaf));
}

test("any text and any parts at all", { timeout: fuzzTimeoutMs }, () => {
  const part = fc.record({
    type: fc.constantFrom("text", "thinking", "image_url"),
    text: fc.oneof(fc.string({ unit: "binary" }), fc.anything()),
  });
  const call = fc.record({ name: fc.string({ unit: "binary" }), arguments: fc.string({ unit: "binary" }) });
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: "binary" }), fc.array(part)), fc.array(call), (content, toolCalls) => {
      const answer = read({ content, toolCalls });
      expect(answer.type === "failed" || answer.calls.length <= toolCalls.length).toBe(true);
    }),
    { numRuns: fuzzRuns },
  );
});
