import { getEventListeners } from "node:events";
import { afterEach, describe, expect, test } from "vitest";
import { type OpenAIOptions, openai } from "../../src/openai/openai.ts";
import type { ModelOutcome, ModelRequest } from "../../src/ports.ts";
import { contractRequest, contractScript, describeModelClient } from "../contract/model-client.contract.ts";
import { type FakeAnswer, type FakeOpenAI, type FakeRequest, startFakeOpenai, turnOf } from "../support/fake-openai.ts";

const httpFailures: Record<string, FakeAnswer> = {
  transient: { status: 503, body: { error: { message: "down" } } },
  permanent: { status: 401, body: { error: { message: "no" } } },
  overflow: { status: 400, body: { error: { message: "no", code: "context_length_exceeded" } } },
};

function playScript(): (request: FakeRequest) => FakeAnswer {
  const asked = new Map<number, number>();
  return ({ body }) => {
    const turn = turnOf(body);
    const attempt = (asked.get(turn) ?? 0) + 1;
    asked.set(turn, attempt);
    const { fail, ...reply } = contractScript[turn - 1] ?? {};
    const failure = fail?.[attempt - 1];
    const toolCalls = reply.toolCalls?.map((call) => ({ ...call, name: call.name.replace(".", "_") }));
    if (failure) return httpFailures[failure.class] ?? "no such failure";
    return { ...reply, ...(toolCalls ? { toolCalls } : {}) };
  };
}

describeModelClient("openai", async () => {
  const server = await startFakeOpenai({ respond: playScript() });
  const { client } = openai({ model: "m", baseURL: server.url, apiKey: "test-key" });
  return { client, stop: server.stop };
});

let server: FakeOpenAI | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});

type Call = (fields?: Partial<ModelRequest>) => Promise<ModelOutcome>;

async function start(
  respond: FakeAnswer | ((request: FakeRequest) => FakeAnswer | Promise<FakeAnswer>),
  options: Partial<OpenAIOptions> = {},
): Promise<{ call: Call; fake: FakeOpenAI }> {
  const fake = await startFakeOpenai({ respond: typeof respond === "function" ? respond : () => respond });
  server = fake;
  const { client } = openai({ model: "m", baseURL: fake.url, apiKey: "test-key", ...options });
  return { call: (fields = {}) => client.call(contractRequest(1, { tools: [], ...fields })), fake };
}

const sse = (...data: unknown[]): string[] => data.map((one) => `data: ${JSON.stringify(one)}\n\n`);
const eventStream = { "content-type": "text/event-stream" };
const hi = { choices: [{ index: 0, delta: { content: "hi" }, finish_reason: null }] };
const stop = { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };

describe("a whole answer", () => {
  test.each([true, false])("with stream %s", async (stream) => {
    const price = { inputPerMTok: 1, outputPerMTok: 2 };
    const { call, fake } = await start({ text: "hello", extra: { reasoning_content: "hm" } }, { stream, price });
    const texts: string[] = [];
    expect(await call({ onText: (text) => texts.push(text) })).toEqual({
      type: "reply",
      reply: { content: "hello", toolCalls: [], extra: { reasoning_content: "hm" } },
      finishReason: "stop",
      usage: { inputTokens: 10, outputTokens: 5, cachedTokens: 0, costUsd: 20 / 1e6 },
      model: "m",
      responseId: "chatcmpl-fake",
      timeToFirstChunkMs: expect.any(Number),
      dropped: [],
    });
    expect(texts).toEqual(["hello"]);
    expect(fake.requests[0]?.body.stream).toBe(stream ? true : undefined);
  });

  test("usage that is not told is estimated", async () => {
    const { call } = await start({ text: "hello", usage: { prompt_tokens: null } });
    expect((await call()).usage).toMatchObject({ outputTokens: 2, estimated: true });
  });

  test("JSON for a stream, and a stream under a wrong content type", async () => {
    const completion = { choices: [{ message: { content: "hi" }, finish_reason: "stop" }] };
    const answers: FakeAnswer[] = [
      { status: 200, body: completion },
      { status: 200, headers: { "content-type": "application/json" }, pieces: sse(hi, stop) },
    ];
    const { call } = await start(({ index }) => answers[index] ?? "surplus");
    expect(await call()).toMatchObject({ type: "reply", reply: { content: "hi" } });
    expect(await call()).toMatchObject({ type: "reply", reply: { content: "hi" } });
  });

  test("is over at [DONE], though the connection stays open", async () => {
    const pieces = [...sse(hi, stop), "data: [DONE]\n\n"];
    const { call, fake } = await start({ status: 200, headers: eventStream, pieces, end: "hold" });
    expect(await call()).toMatchObject({ type: "reply", finishReason: "stop" });
    await fake.closedBy(0);
  });

  test("is over after its finish reason, though nothing follows, not even in time", async () => {
    const { call } = await start(
      { status: 200, headers: eventStream, pieces: sse(hi, stop), end: "hold" },
      { idleTimeoutMs: 100 },
    );
    expect(await call()).toMatchObject({ type: "reply", finishReason: "stop", usage: { estimated: true } });
  });

  test("is whole when the connection breaks after its finish reason", async () => {
    const { call } = await start({ status: 200, headers: eventStream, pieces: sse(hi, stop), end: "reset" });
    expect(await call()).toMatchObject({ type: "reply", reply: { content: "hi" } });
  });
});

describe("answers that never come whole", () => {
  test.each<[string, FakeAnswer, Partial<OpenAIOptions>, string]>([
    ["a clean end in mid-sentence", { text: "The rule is", end: "cut" }, {}, "cut"],
    ["a reset connection", { text: "The rule is", end: "reset" }, {}, "cut"],
    ["half a JSON body", { text: "The rule is", end: "cut" }, { stream: false }, "cut"],
    ["a stalled stream", { text: "The rule is", end: "hold" }, { idleTimeoutMs: 100 }, "idle_timeout"],
    [
      "headers and no more",
      { status: 200, headers: eventStream, pieces: [": hi\n\n"], end: "hold" },
      { idleTimeoutMs: 100 },
      "idle_timeout",
    ],
    ["a stream that takes too long", { text: "The rule is", end: "hold" }, { timeoutMs: 100 }, "timeout"],
  ])("%s", async (...[, answer, options, code]) => {
    const { call } = await start(answer, options);
    const outcome = await call();
    expect(outcome).toMatchObject({
      type: "failure",
      failure: { class: "transient", code, message: expect.stringMatching(/127\.0\.0\.1/) },
    });
    expect(outcome.usage.estimated).toBe(true);
    expect(outcome).not.toHaveProperty("reply");
  });

  test("keep-alive comments do not keep an answer alive", async () => {
    const respond = {
      status: 200,
      headers: eventStream,
      pieces: Array.from({ length: 200 }, () => ": ping\n\n"),
      end: "hold" as const,
    };
    const { call, fake } = await start(respond, { idleTimeoutMs: 150 });
    expect(await call()).toMatchObject({ failure: { code: "idle_timeout" } });
    await fake.closedBy(0);
  });

  test("no answer in time, and nothing spent that we know of", async () => {
    const { call } = await start({ delayMs: 10_000, text: "late" }, { timeoutMs: 100 });
    expect(await call()).toMatchObject({
      failure: { class: "transient", code: "timeout" },
      usage: { inputTokens: 0, outputTokens: 0 },
    });
  });

  test("nobody listening", async () => {
    const { call, fake } = await start("never");
    await fake.stop();
    expect(await call()).toMatchObject({
      failure: { class: "transient", code: "connection_error", message: expect.stringMatching(/ECONNREFUSED/) },
    });
  });
});

describe("abort", () => {
  test("in mid-stream closes the connection within a tenth of a second and counts what came", async () => {
    const { call, fake } = await start({ deltas: ["The rule ", "is that"], end: "hold" });
    const controller = new AbortController();
    const heard = Promise.withResolvers<void>();
    const onText = (text: string): void => {
      if (text === "is that") heard.resolve();
    };
    const outcome = call({ signal: controller.signal, onText });
    await heard.promise;
    const abortedAt = Date.now();
    controller.abort();
    expect((await fake.closedBy(0)) - abortedAt).toBeLessThan(100);
    expect(await outcome).toMatchObject({
      type: "failure",
      failure: { class: "aborted", code: "aborted" },
      usage: { outputTokens: Math.ceil("The rule is that".length / 4), estimated: true },
    });
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  });

  test("before the headers closes the connection too", async () => {
    const { call, fake } = await start(() => new Promise<FakeAnswer>(() => {}));
    const controller = new AbortController();
    const outcome = call({ signal: controller.signal });
    await fake.received(0);
    controller.abort();
    await fake.closedBy(0);
    expect(await outcome).toMatchObject({ failure: { class: "aborted" }, usage: { inputTokens: 0 } });
  });
});

describe("refusals", () => {
  test("are not retried here; Retry-After is told", async () => {
    const { call, fake } = await start({
      status: 429,
      headers: { "retry-after": "7" },
      body: { error: { message: "slow" } },
    });
    expect(await call()).toMatchObject({
      failure: { class: "transient", code: "rate_limited", status: 429, retryAfterMs: 7_000 },
      usage: { inputTokens: 0 },
    });
    expect(fake.requests).toHaveLength(1);
  });

  test("error bodies that are lists or pages arrive whole", async () => {
    const answers: FakeAnswer[] = [
      { status: 400, body: [{ error: { code: 400, message: "in a list" } }] },
      { status: 502, body: "<html><title>Bad gateway</title></html>" },
    ];
    const { call } = await start(({ index }) => answers[index] ?? "surplus");
    expect(await call()).toMatchObject({
      failure: { class: "permanent", message: expect.stringMatching(/in a list/) },
    });
    expect(await call()).toMatchObject({
      failure: { class: "transient", message: expect.stringMatching(/Bad gateway/) },
    });
  });

  test.each<[string, FakeAnswer]>([
    ["as a body", { status: 200, body: { error: { code: 502, message: "upstream" } } }],
    ["as an event", { status: 200, headers: eventStream, pieces: sse({ error: { code: 502, message: "upstream" } }) }],
    [
      "after text",
      { status: 200, headers: eventStream, pieces: sse(hi, { error: { code: 502, message: "upstream" } }) },
    ],
  ])("inside a 200, %s", async (_, answer) => {
    const { call } = await start(answer);
    expect(await call()).toMatchObject({ type: "failure", failure: { class: "transient", code: "server_error" } });
  });

  test("a key is sent, and never shown", async () => {
    const body = { error: { message: "You sent test-key and secret-header", code: "nope" } };
    const { call, fake } = await start({ status: 400, body }, { headers: { "x-team": "secret-header" } });
    const outcome = await call();
    expect(JSON.stringify(outcome)).not.toMatch(/test-key|secret-header/);
    expect(fake.requests[0]?.headers).toMatchObject({ authorization: "Bearer test-key", "x-team": "secret-header" });
  });

  test("no key, no header", async () => {
    const fake = await startFakeOpenai({ respond: () => "hi" });
    server = fake;
    const { client } = openai({ model: "m", baseURL: fake.url });
    expect(await client.call(contractRequest(1))).toMatchObject({ type: "reply" });
    expect(fake.requests[0]?.headers.authorization).toBeUndefined();
  });
});

describe("fields that a server refuses by name", () => {
  const refuse = (field: string): FakeAnswer => ({
    status: 400,
    body: { error: { message: `Unsupported parameter: '${field}'`, param: field, code: "unsupported_parameter" } },
  });

  test("are left out within the same call, told, and remembered", async () => {
    const strict = ({ body }: FakeRequest): FakeAnswer => {
      const field = ["stream_options", "temperature"].find((name) => name in body);
      return field ? refuse(field) : "fine";
    };
    const { call, fake } = await start(strict);
    const outcome = await call({ request: { temperature: 0 } });
    expect(outcome).toMatchObject({ type: "reply", dropped: ["stream_options", "temperature"] });
    expect(fake.requests).toHaveLength(3);
    expect(await call({ request: { temperature: 0 } })).toMatchObject({ type: "reply", dropped: outcome.dropped });
    expect(fake.requests).toHaveLength(4);
  });

  test("end the call when there are too many or leaving them out does not help", async () => {
    const { call, fake } = await start(refuse("stream_options"));
    expect(await call()).toMatchObject({ failure: { class: "permanent", code: "invalid_request" } });
    expect(fake.requests).toHaveLength(2);
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`field_${index}`, 1]));
    const all = await start(({ body }) => refuse(Object.keys(body).find((name) => name.startsWith("field_")) ?? ""));
    expect(await all.call({ request: many })).toMatchObject({ type: "failure" });
    expect(all.fake.requests).toHaveLength(17);
    await fake.stop();
  });
});
