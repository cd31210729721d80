import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Accumulated, createAccumulator } from "../../src/openai/accumulator.ts";

type Json = Record<string, unknown>;

function delta(fields: unknown, finishReason: string | null = null): Json {
  return { choices: [{ index: 0, delta: fields, finish_reason: finishReason }] };
}

function call(fields: { index?: number; id?: string | null; name?: string; args?: unknown; extra?: Json }): Json {
  const { index, id, name, args, extra } = fields;
  const fn = { ...(name === undefined ? {} : { name }), ...(args === undefined ? {} : { arguments: args }) };
  return { ...(index === undefined ? {} : { index }), ...(id === undefined ? {} : { id }), function: fn, ...extra };
}

const calls = (...list: Json[]): Json => delta({ tool_calls: list });

function accumulate(...chunks: unknown[]): Accumulated {
  const accumulator = createAccumulator();
  for (const chunk of chunks) accumulator.addChunk(chunk);
  return accumulator.result();
}

const add = { id: "a", name: "add", arguments: '{"x":1}' };
const ping = { id: "b", name: "ping", arguments: "{}" };

describe("tool calls, however they come", () => {
  test.each<[string, unknown[], unknown[]]>([
    [
      "by the book",
      [
        calls(call({ index: 0, id: "a", name: "add", args: "" })),
        calls(call({ index: 0, args: '{"x"' })),
        calls(call({ index: 0, args: ":1}" })),
        calls(call({ index: 1, id: "b", name: "ping", args: "{}" })),
      ],
      [add, ping],
    ],
    [
      "in pieces that take turns",
      [
        calls(call({ index: 0, id: "a", name: "add", args: "" }), call({ index: 1, id: "b", name: "ping", args: "" })),
        calls(call({ index: 1, args: "{" }), call({ index: 0, args: '{"x":' })),
        calls(call({ index: 0, args: "1}" }), call({ index: 1, args: "}" })),
      ],
      [add, ping],
    ],
    [
      "counted from 1",
      [
        calls(call({ index: 1, id: "a", name: "add", args: '{"x":1}' })),
        calls(call({ index: 2, id: "b", name: "ping", args: "{}" })),
      ],
      [add, ping],
    ],
    [
      "whole, all with index 0",
      [
        calls(call({ index: 0, id: "a", name: "add", args: '{"x":1}' })),
        calls(call({ index: 0, id: "b", name: "ping", args: "{}" })),
      ],
      [add, ping],
    ],
    [
      "whole, all with index 0, the same tool twice",
      [
        calls(call({ index: 0, id: "a", name: "add", args: '{"x":1}' })),
        calls(call({ index: 0, id: "b", name: "add", args: '{"x":1}' })),
      ],
      [add, { ...add, id: "b" }],
    ],
    [
      "index 0 for all, without ids, a second name after complete JSON",
      [calls(call({ index: 0, name: "add", args: '{"x":1}' })), calls(call({ index: 0, name: "ping", args: "{}" }))],
      [
        { name: "add", arguments: '{"x":1}' },
        { name: "ping", arguments: "{}" },
      ],
    ],
    [
      "index 0 for all, without ids, the same name with other arguments",
      [
        calls(call({ index: 0, name: "add", args: '{"x":1}' })),
        calls(call({ index: 0, name: "add", args: '{"x":2}' })),
      ],
      [
        { name: "add", arguments: '{"x":1}' },
        { name: "add", arguments: '{"x":2}' },
      ],
    ],
    [
      "without index, told apart by id",
      [
        calls(call({ id: "a", name: "add", args: '{"x":' })),
        calls(call({ id: "b", name: "ping", args: "" })),
        calls(call({ id: "a", args: "1}" })),
        calls(call({ id: "b", args: "{}" })),
      ],
      [add, ping],
    ],
    [
      "without index and id, one after the other",
      [
        calls(call({ name: "add", args: '{"x":' })),
        calls(call({ args: "1}" })),
        calls(call({ name: "ping", args: "{}" })),
      ],
      [
        { name: "add", arguments: '{"x":1}' },
        { name: "ping", arguments: "{}" },
      ],
    ],
    [
      "without index and id, side by side",
      [calls(call({ name: "ping", args: "{}" }), call({ name: "ping", args: "{}" }))],
      [
        { name: "ping", arguments: "{}" },
        { name: "ping", arguments: "{}" },
      ],
    ],
    [
      "with empty and null ids",
      [
        calls(call({ index: 0, id: "", name: "ping", args: "{}" })),
        calls(call({ index: 1, id: null, name: "ping", args: "{}" })),
      ],
      [
        { name: "ping", arguments: "{}" },
        { name: "ping", arguments: "{}" },
      ],
    ],
    [
      "with an id that changes after the first piece",
      [
        calls(call({ index: 0, id: "a", name: "add", args: "" })),
        calls(call({ index: 0, id: "a2", args: '{"x"' })),
        calls(call({ index: 0, id: "a3", args: ":1}" })),
      ],
      [add],
    ],
    [
      "with name and id in every piece",
      [
        calls(call({ index: 0, id: "a", name: "add", args: '{"x"' })),
        calls(call({ index: 0, id: "a", name: "add", args: ":1}" })),
        calls(call({ index: 0, id: "a", name: "add", args: "" })),
      ],
      [add],
    ],
    [
      "with the name and a new id in every piece",
      [
        calls(call({ index: 0, id: "a", name: "add", args: '{"x"' })),
        calls(call({ index: 0, id: "a2", name: "add", args: ":1}" })),
      ],
      [add],
    ],
    [
      "with the name in every piece and no id",
      [
        calls(call({ index: 0, name: "add", args: '{"x"' })),
        calls(call({ index: 0, name: "add", args: ":1}" })),
        calls(call({ index: 0, name: "add", args: "" })),
      ],
      [{ name: "add", arguments: '{"x":1}' }],
    ],
    [
      "repeated whole at the end",
      [
        calls(call({ index: 0, id: "a", name: "add", args: '{"x"' })),
        calls(call({ index: 0, args: ":1}" })),
        calls(call({ index: 0, id: "a", name: "add", args: '{"x":1}' })),
      ],
      [add],
    ],
    ["with arguments as an object", [calls(call({ index: 0, id: "a", name: "add", args: { x: 1 } }))], [add]],
    [
      "with null arguments",
      [calls(call({ index: 0, id: "b", name: "ping", args: null }))],
      [{ ...ping, arguments: "" }],
    ],
    [
      "in the old form",
      [delta({ function_call: { name: "add", arguments: '{"x"' } }), delta({ function_call: { arguments: ":1}" } })],
      [{ name: "add", arguments: '{"x":1}' }],
    ],
    [
      "in the new form and the old one at once",
      [
        delta({
          tool_calls: [call({ index: 0, id: "b", name: "ping", args: "{}" })],
          function_call: { name: "ping", arguments: "{}" },
        }),
      ],
      [ping],
    ],
    [
      "with fields that we do not know",
      [
        calls(
          call({
            index: 0,
            id: "a",
            name: "add",
            args: "",
            extra: { extra_content: { google: { thought_signature: "s" } } },
          }),
        ),
        calls({ index: 0, function: { arguments: '{"x":1}', strict: true } }),
      ],
      [{ ...add, extra: { extra_content: { google: { thought_signature: "s" } }, function: { strict: true } } }],
    ],
    [
      "as nonsense",
      [delta({ tool_calls: [null, 7, "x", {}] }), delta({ tool_calls: "x" })],
      [{ name: "", arguments: "" }],
    ],
  ])("%s", (_, chunks, expected) => {
    expect(accumulate(...chunks).reply.toolCalls).toEqual(expected);
  });
});

describe("text and the rest", () => {
  test("null and missing choices and deltas are passed over; their finish reason and usage count", () => {
    const result = accumulate(
      { choices: [], prompt_filter_results: [] },
      { choices: null },
      { choices: [{ index: 0, delta: null }] },
      delta({ role: "assistant", content: null }),
      delta({ content: "hi" }),
      { choices: [{ index: 0, finish_reason: "stop" }] },
      { choices: null, usage: { prompt_tokens: 3, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 2 } } },
    );
    expect(result.reply).toEqual({ content: "hi", toolCalls: [] });
    expect(result.finishReason).toBe("stop");
    expect(result.usage).toEqual({ inputTokens: 3, outputTokens: 1, cachedTokens: 2 });
  });

  test("usage of nulls is no usage and does not undo what was told", () => {
    const nulls = { prompt_tokens: null, completion_tokens: null };
    expect(accumulate({ usage: nulls }).usage).toBeUndefined();
    const told = { choices: [{ usage: { prompt_tokens: 3, completion_tokens: 1 } }] };
    expect(accumulate(told, { usage: nulls }).usage).toMatchObject({ inputTokens: 3 });
    expect(accumulate({ x_groq: { usage: { prompt_tokens: 4, completion_tokens: 1 } } }).usage).toMatchObject({
      inputTokens: 4,
    });
  });

  test("content parts keep their order; text beside them is joined", () => {
    const thinking = { type: "thinking", thinking: [{ type: "text", text: "hm" }] };
    const accumulator = createAccumulator();
    const texts = [
      delta({ content: [thinking] }),
      delta({
        content: [
          { type: "text", text: "I know: " },
          { type: "reference", reference_ids: [1] },
        ],
      }),
      delta({ content: "it is " }),
      delta({ content: ["21 C", { no: "type" }, 5] }),
    ].map((chunk) => accumulator.addChunk(chunk));
    expect(texts).toEqual(["", "I know: ", "it is ", "21 C"]);
    expect(accumulator.result().reply.content).toEqual([
      thinking,
      { type: "text", text: "I know: " },
      { type: "reference", reference_ids: [1] },
      { type: "text", text: "it is 21 C" },
    ]);
  });

  test("parts that are nothing but text become text", () => {
    expect(accumulate(delta({ content: [{ type: "text", text: "a" }] }), delta({ content: "b" })).reply.content).toBe(
      "ab",
    );
  });

  test("unknown fields are kept whole under their names; nulls and what servers refuse back are not", () => {
    const result = accumulate(
      delta({ role: "assistant", reasoning_content: "", annotations: [], audio: null, reasoning: null }),
      delta({ reasoning_content: "The user", reasoning_details: [{ text: "a" }], meta: { a: 1 } }),
      delta({ reasoning_content: " wants", reasoning_details: [{ text: "b" }], meta: { b: 2 } }),
      delta({ reasoning_content: null, content: "5" }),
    );
    expect(result.reply.extra).toEqual({
      reasoning_content: "The user wants",
      reasoning_details: [{ text: "a" }, { text: "b" }],
      meta: { a: 1, b: 2 },
    });
  });

  test("a refusal", () => {
    expect(accumulate(delta({ refusal: "I will " }), delta({ refusal: "not." })).reply).toEqual({
      content: null,
      toolCalls: [],
      refusal: "I will not.",
    });
  });

  test("only the first choice counts", () => {
    const second = { choices: [{ index: 1, delta: { content: "no" }, finish_reason: "length" }] };
    const result = accumulate(delta({ content: "yes" }), second, delta({}, "stop"));
    expect(result).toMatchObject({ reply: { content: "yes" }, finishReason: "stop" });
  });

  test("a whole message in the last chunk repeats what came; alone it counts", () => {
    const last = { choices: [{ index: 0, message: { content: "hi" }, finish_reason: "stop" }] };
    expect(accumulate(delta({ content: "hi" }), last).reply.content).toBe("hi");
    expect(accumulate(last).reply.content).toBe("hi");
  });

  test.each<[string, unknown, unknown]>([
    ["an error object", { error: { code: 502, message: "no" }, choices: [] }, { code: 502, message: "no" }],
    ["an error text", { error: "no" }, "no"],
    ["a flat error", { object: "error", message: "no" }, expect.objectContaining({ message: "no" })],
    ["an error in a list", [{ error: { code: 400 } }], { code: 400 }],
    ["no error", { error: null, choices: [] }, undefined],
  ])("%s", (_, chunk, error) => {
    expect(accumulate(chunk).error).toEqual(error);
  });

  test("what was received is counted: text, reasoning, refusal and calls", () => {
    const result = accumulate(
      delta({ content: "ab", reasoning_content: "cd", refusal: "ef" }),
      calls(call({ index: 0, name: "add", args: "{}" })),
    );
    expect(result.received).toHaveLength("abcdefadd{}".length);
  });
});

test("a completion in one piece: its calls are told apart by their place", () => {
  const accumulator = createAccumulator();
  const message = {
    role: "assistant",
    content: "two",
    tool_calls: [call({ id: "", name: "ping", args: "{}" }), call({ index: 0, id: "", name: "ping", args: "{}" })],
  };
  const text = accumulator.addCompletion({ id: "r1", model: "m", choices: [{ message, finish_reason: "tool_calls" }] });
  expect(text).toBe("two");
  expect(accumulator.result()).toMatchObject({
    responseId: "r1",
    model: "m",
    finishReason: "tool_calls",
    reply: { content: "two", toolCalls: [{ name: "ping" }, { name: "ping" }] },
  });
});

test("never throws, whatever it is given", () => {
  const shaped = fc.record(
    {
      choices: fc.anything(),
      error: fc.anything(),
      usage: fc.anything(),
      id: fc.anything(),
    },
    { requiredKeys: [] },
  );
  const message = fc.record(
    {
      content: fc.anything(),
      tool_calls: fc.oneof(
        fc.anything(),
        fc.array(fc.record({ index: fc.anything(), id: fc.anything(), function: fc.anything() })),
      ),
      function_call: fc.anything(),
      refusal: fc.anything(),
    },
    { requiredKeys: [] },
  );
  const chunk = fc.oneof(
    fc.anything(),
    shaped,
    message.map((fields) => delta(fields)),
  );
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 6 }), (chunks) => {
      expect(accumulate(...chunks).reply.toolCalls).toBeInstanceOf(Array);
    }),
    { numRuns: 2_000 },
  );
});

test("a call is the same however its arguments are split", () => {
  const value = fc.dictionary(fc.string({ minLength: 1 }), fc.jsonValue(), { minKeys: 1 });
  fc.assert(
    fc.property(value, fc.array(fc.nat(), { maxLength: 6 }), fc.boolean(), (args, cuts, withName) => {
      const text = JSON.stringify(args);
      const places = [...new Set(cuts.map((cut) => cut % text.length)), 0, text.length].sort((a, b) => a - b);
      const pieces = places.slice(1).map((place, index) => text.slice(places[index], place));
      const chunks = pieces.map((args_, index) =>
        calls(call({ index: 0, args: args_, ...(index === 0 || withName ? { id: "a", name: "add" } : {}) })),
      );
      expect(accumulate(...chunks).reply.toolCalls).toEqual([{ id: "a", name: "add", arguments: text }]);
    }),
    { numRuns: 2_000 },
  );
});
