import { describe, expect, test } from "vitest";
import type { Message } from "../../src/core/message.ts";
import { findQuirk } from "../../src/openai/quirks.ts";
import { toRequestBody } from "../../src/openai/request.ts";
import { toModelReply } from "../../src/openai/response.ts";
import { readServerError } from "../../src/openai/server-error.ts";
import { estimateUsage, withCost } from "../../src/openai/usage.ts";
import type { ModelRequest } from "../../src/ports.ts";

type Body = Record<string, unknown> & { messages: Record<string, unknown>[] };

function toRequest(fields: Partial<ModelRequest>): ModelRequest {
  return {
    runId: "run-a",
    turn: 1,
    attempt: 1,
    instructions: "",
    messages: [{ role: "user", content: "hi" }],
    tools: [],
    request: {},
    signal: new AbortController().signal,
    onText: () => {},
    ...fields,
  };
}

function bodyOf(fields: Partial<ModelRequest>, quirks: string[] = [], stream = false): Body {
  return toRequestBody(toRequest(fields), { model: "m", stream, quirks: new Set(quirks) }) as Body;
}

const call = { callId: "call-1-1", id: "functions.ping:0", name: "ping", arguments: "{}" };
const assistant = (fields: Partial<Extract<Message, { role: "assistant" }>>): Message => ({
  role: "assistant",
  content: null,
  ...fields,
});
const weather = { name: "get.weather", description: "Weather", parameters: { type: "object", properties: {} } };

describe("messages", () => {
  const sent = (messages: Message[], quirks: string[] = []): unknown[] => bodyOf({ messages }, quirks).messages;

  test("one system message in front, of instructions and leading system messages", () => {
    const messages: Message[] = [
      { role: "developer", content: "Be brief." },
      { role: "user", content: "hi", name: "ann" },
      { role: "developer", content: "Briefer." },
    ];
    expect(bodyOf({ instructions: "You help.", messages }).messages).toEqual([
      { role: "system", content: "You help.\n\nBe brief." },
      { role: "user", content: "hi", name: "ann" },
      { role: "system", content: "Briefer." },
    ]);
    const parts = [{ type: "text", text: "b", cache_control: { type: "ephemeral" } }];
    expect(bodyOf({ instructions: "a", messages: [{ role: "system", content: parts }] }).messages).toEqual([
      { role: "system", content: [{ type: "text", text: "a" }, ...parts] },
    ]);
  });

  test("calls and results, with the provider's ids and unknown fields as they came", () => {
    const extra = { reasoning_content: "because" };
    const callExtra = { extra_content: { google: { thought_signature: "s" } }, function: { strict: true } };
    const messages: Message[] = [
      assistant({ toolCalls: [{ ...call, extra: callExtra }], extra }),
      { role: "tool", callId: "call-1-1", toolCallId: call.id, name: "ping", content: "pong", outcome: "ok" },
    ];
    expect(sent(messages)).toEqual([
      {
        role: "assistant",
        content: null,
        reasoning_content: "because",
        tool_calls: [
          {
            id: call.id,
            type: "function",
            function: { name: "ping", arguments: "{}", strict: true },
            extra_content: callExtra.extra_content,
          },
        ],
      },
      { role: "tool", tool_call_id: call.id, content: "pong" },
    ]);
  });

  test("an unknown field cannot take the place of a known one", () => {
    const extra = { role: "user", content: "x", tool_calls: 1 };
    expect(sent([assistant({ content: "yes", toolCalls: [call], extra })])).toMatchObject([
      { role: "assistant", content: "yes", tool_calls: [{ id: call.id }] },
    ]);
  });

  test("a turn of nothing but calls has the content this server wants", () => {
    const messages = [assistant({ content: "", toolCalls: [call] })];
    expect(sent(messages)).toMatchObject([{ content: null }]);
    expect(sent(messages, ["content.null"])).toMatchObject([{ content: "" }]);
    expect(sent(messages, ["content.null", 'content.""'])[0]).not.toHaveProperty("content");
  });

  test("a refusal goes back as its text; an answer of nothing does not go back", () => {
    const messages = [assistant({ refusal: "No." }), assistant({ content: " " }), assistant({ content: [] })];
    expect(sent(messages)).toEqual([{ role: "assistant", content: "No." }]);
  });

  test("half a surrogate pair is replaced wherever it stands", () => {
    const half = "a\ud800b";
    const body = bodyOf({
      instructions: half,
      messages: [
        { role: "user", content: [{ type: "text", text: half }] },
        assistant({ content: half, extra: { [half]: half } }),
      ],
    });
    expect(JSON.stringify(body)).not.toMatch(/\\ud800/i);
    expect(body.messages[0]).toEqual({ role: "system", content: "a\ufffdb" });
  });
});

describe("fields", () => {
  test("nothing optional is sent that nobody asked for", () => {
    expect(Object.keys(bodyOf({})).sort()).toEqual(["messages", "model"]);
    expect(Object.keys(bodyOf({}, [], true)).sort()).toEqual(["messages", "model", "stream", "stream_options"]);
  });

  test("what the agent asks for goes along, and cannot replace what is ours", () => {
    const request = { temperature: 0.2, model: "other", messages: [], stream: false, stream_options: { x: 1 } };
    expect(bodyOf({ request }, [], true)).toMatchObject({
      temperature: 0.2,
      model: "m",
      messages: [{ role: "user" }],
      stream: true,
      stream_options: { x: 1, include_usage: true },
    });
  });

  test("refused fields are left out or renamed", () => {
    const request = { temperature: 0.2, max_tokens: 5 };
    const quirks = ["temperature", "stream_options", "max_tokens>max_completion_tokens", "message.reasoning"];
    const messages = [assistant({ content: "a", extra: { reasoning: "b" } })];
    expect(bodyOf({ request, messages }, quirks, true)).toEqual({
      model: "m",
      messages: [{ role: "assistant", content: "a" }],
      stream: true,
      max_completion_tokens: 5,
    });
    expect(bodyOf({}, ["stream"], true)).not.toHaveProperty("stream_options");
  });
});

describe("tools", () => {
  const schemaOf = (parameters: Record<string, unknown>, quirks: string[] = []): unknown => {
    const { tools } = bodyOf({ tools: [{ ...weather, parameters }] }, quirks);
    const [tool] = tools as { function: { parameters: unknown } }[];
    return tool?.function.parameters;
  };

  test("names are sent in a legal form, in history too, and are mapped back", () => {
    const messages = [
      assistant({
        toolCalls: [
          { ...call, name: "get.weather" },
          { ...call, name: "no such!" },
        ],
      }),
    ];
    const body = bodyOf({ tools: [weather], messages });
    expect(body.tools).toMatchObject([{ type: "function", function: { name: "get_weather", description: "Weather" } }]);
    expect(body.messages[0]).toMatchObject({
      tool_calls: [{ function: { name: "get_weather" } }, { function: { name: "no_such_" } }],
    });
    const reply = {
      content: null,
      toolCalls: [
        { name: "get_weather", arguments: "{}" },
        { name: "other", arguments: "{}" },
      ],
    };
    const back = toModelReply({ reply, hasChoice: true, received: "" }, toRequest({ tools: [weather] }));
    expect(back.reply.toolCalls.map(({ name }) => name)).toEqual(["get.weather", "other"]);
    expect(back.finishReason).toBe("tool_calls");
  });

  const schema = {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    additionalProperties: false,
    properties: {
      slot: { $ref: "#/$defs/slot", description: "When" },
      title: { type: ["null", "string"], default: { additionalProperties: 1 } },
      additionalProperties: { type: "string" },
    },
    required: ["slot"],
    $defs: {
      slot: {
        type: "object",
        properties: { day: { type: "string" }, next: { $ref: "#/$defs/slot" } },
        additionalProperties: false,
      },
    },
  };

  test("$schema is never sent; the rest stays until it is refused", () => {
    const { $schema: _, ...rest } = schema;
    expect(schemaOf(schema)).toEqual(rest);
  });

  test("a refused keyword goes, a property or a default of that name stays", () => {
    expect(schemaOf(schema, ["schema.additionalProperties"])).toEqual({
      type: "object",
      properties: {
        slot: { $ref: "#/$defs/slot", description: "When" },
        title: { type: ["null", "string"], default: { additionalProperties: 1 } },
        additionalProperties: { type: "string" },
      },
      required: ["slot"],
      $defs: { slot: { type: "object", properties: { day: { type: "string" }, next: { $ref: "#/$defs/slot" } } } },
    });
  });

  test("refused references are written out, one that holds itself once", () => {
    expect(schemaOf(schema, ["schema.$ref", "schema.type[]"])).toEqual({
      type: "object",
      additionalProperties: false,
      properties: {
        slot: {
          type: "object",
          properties: { day: { type: "string" }, next: { type: "object" } },
          additionalProperties: false,
          description: "When",
        },
        title: { type: "string", default: { additionalProperties: 1 } },
        additionalProperties: { type: "string" },
      },
      required: ["slot"],
    });
    expect(schemaOf({ anyOf: [{ $ref: "https://x/y" }, { $ref: "#/no/where" }] }, ["schema.$defs"])).toEqual({
      anyOf: [{ type: "object" }, { type: "object" }],
    });
  });
});

describe("what a refusal is about", () => {
  const body = bodyOf(
    {
      request: { temperature: 2, max_tokens: 5 },
      tools: [
        {
          ...weather,
          parameters: { type: "object", additionalProperties: false, properties: { a: { type: ["string", "null"] } } },
        },
      ],
      messages: [assistant({ toolCalls: [call], extra: { reasoning_content: "x" } })],
    },
    [],
    true,
  );
  const about = (status: number, error: unknown, known: string[] = []): string | undefined =>
    findQuirk(readServerError(status, JSON.stringify(error)), body, new Set(known));
  const unsupported = (field: string): unknown => ({
    error: {
      message: `Unsupported parameter: '${field}' is not supported with this model.`,
      param: field,
      code: "unsupported_parameter",
    },
  });

  test.each<[string, number, unknown, string | undefined]>([
    ["a field by param", 400, unsupported("temperature"), "temperature"],
    [
      "a field in FastAPI's way",
      422,
      { detail: [{ loc: ["body", "stream_options"], msg: "Extra inputs are not permitted" }] },
      "stream_options",
    ],
    [
      "streaming",
      400,
      { error: { message: "Streaming is not supported.", param: "stream", code: "unsupported_value" } },
      "stream",
    ],
    [
      "a field with another name there",
      400,
      { error: { message: "'max_tokens' is not supported. Use 'max_completion_tokens' instead." } },
      "max_tokens>max_completion_tokens",
    ],
    [
      "a keyword",
      400,
      [{ error: { code: 400, message: "Unknown name \"additionalProperties\" at 'tools[0]': Cannot find field." } }],
      "schema.additionalProperties",
    ],
    [
      "a list of types",
      400,
      { error: { message: 'Unknown name "type": Proto field is not repeating, cannot start list.' } },
      "schema.type[]",
    ],
    [
      "a field of an answer",
      400,
      { error: { message: "property 'reasoning_content' is unsupported" } },
      "message.reasoning_content",
    ],
    ["null content", 400, { error: "Invalid 'content': the 'content' field must be a string" }, "content.null"],
    ["a value", 400, { error: { message: "temperature must be at most 1", param: "temperature" } }, undefined],
    [
      "what must be there",
      400,
      { error: { message: "The reasoning_content must be passed back to the API." } },
      undefined,
    ],
    ["tools at all", 400, { error: { message: "'tools' is not supported", param: "tools" } }, undefined],
    ["a field that was not sent", 400, unsupported("top_k"), undefined],
    ["trouble of the server", 500, unsupported("temperature"), undefined],
    ["a field whose name begins alike", 400, unsupported("temperature_scale"), undefined],
  ])("%s", (...[, status, error, quirk]) => {
    expect(about(status, error)).toBe(quirk);
  });

  test("the same refusal is not learnt twice", () => {
    expect(about(400, unsupported("temperature"), ["temperature"])).toBeUndefined();
  });

  test("an empty text refused after null", () => {
    const sent = bodyOf({ messages: [assistant({ toolCalls: [call] })] }, ["content.null"]);
    const error = readServerError(400, '{"message":"content must not be empty"}');
    expect(findQuirk(error, sent, new Set(["content.null"]))).toBe('content.""');
    expect(findQuirk(error, bodyOf({}), new Set())).toBeUndefined();
  });
});

describe("usage", () => {
  test("costs what the price says, cached input apart", () => {
    const usage = { inputTokens: 1_000_000, outputTokens: 500_000, cachedTokens: 400_000 };
    const price = { inputPerMTok: 2, outputPerMTok: 8 };
    expect(withCost(usage, { ...price, cachedPerMTok: 0.5 }).costUsd).toBeCloseTo(0.6 * 2 + 0.4 * 0.5 + 4);
    expect(withCost(usage, price).costUsd).toBeCloseTo(6);
    expect(withCost(usage, undefined)).toBe(usage);
  });

  test("an estimate counts what was sent and what came back, and says so", () => {
    const request = toRequest({
      instructions: "x".repeat(40),
      messages: [assistant({ toolCalls: [call] })],
      tools: [weather],
    });
    const estimate = estimateUsage(request, "y".repeat(9));
    expect(estimate).toMatchObject({ outputTokens: 3, cachedTokens: 0, estimated: true });
    expect(estimate.inputTokens).toBe(Math.ceil((40 + "ping{}".length + JSON.stringify([weather]).length) / 4));
  });
});
