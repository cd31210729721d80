// Catches: a run whose spans lie in several traces, hang under the wrong span, come twice or not at all, once it is
// worked on by several processes; and content, or anything at all, that leaves a process unasked.
import { Queue } from "bullmq";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import type { RunFeedEvent } from "../../src/core/feed.ts";
import { createDrover, type Drover } from "../../src/drover.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import { type FakeAnswer, type FakeOpenAI, type FakeRequest, startFakeOpenai, turnOf } from "../support/fake-openai.ts";
import { type Gate, startGate } from "../support/gate.ts";
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from "../support/otlp-receiver.ts";
import { deletePrefix, testPrefix } from "../support/redis.ts";
import { startTraceProcess, type TraceProcess } from "../support/trace-process.ts";
import type { TraceOptions } from "../support/trace-program.ts";

const [internal, client] = [1, 3];
const [unset, failed] = [0, 2];

const traceId = "0af7651916cd43dd8448eb211c80319c";
const parentSpanId = "b7ad6b7169203331";
const traceparent = `00-${traceId}-${parentSpanId}-01`;
const timeoutMs = 60_000;
/** How far the clocks of two busy processes may be apart: each asks Redis for the time over a connection. */
const apartMs = 500;

type World = {
  prefix: string;
  receiver: OtlpReceiver;
  gate: Gate;
  server: FakeOpenAI;
  /** A client in this process, without telemetry. */
  drover: Drover;
  options: Omit<TraceOptions, "concurrency">;
  /** Environment of a process that exports to the receiver, by default a tenth of a second after a span has ended. */
  exporting: Record<string, string>;
  start(concurrency: number, env?: Record<string, string>): Promise<TraceProcess>;
};

/** A collector, a model server, a gate and a corner of Redis for one test; all of it ends with the test. */
async function makeWorld(
  respond: (request: FakeRequest) => FakeAnswer,
  given: Partial<TraceOptions> = {},
): Promise<World> {
  const redisUrl = inject("redisUrl");
  const prefix = testPrefix();
  onTestFinished(() => deletePrefix(redisUrl, prefix));
  const receiver = await startOtlpReceiver();
  onTestFinished(() => receiver.close());
  const server = await startFakeOpenai({ respond });
  onTestFinished(() => server.stop());
  const gate = await startGate();
  onTestFinished(() => gate.stop());
  const drover = createDrover({
    ...{ redis: redisUrl, prefix, logger: createSilentLogger(), telemetry: createNoTelemetry() },
  });
  onTestFinished(() => drover.close());
  // Nobody is to take over from a worker that is merely slow, except where one is killed.
  const options = { redisUrl, prefix, baseURL: server.url, gateUrl: gate.url, lockMs: 30_000, ...given };
  const exporting = {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_BSP_SCHEDULE_DELAY: "100",
    // Of metrics metrics.e2e.test.ts tells.
    OTEL_METRICS_EXPORTER: "none",
  };
  const start: World["start"] = (concurrency, env = exporting) => startTraceProcess({ ...options, concurrency }, env);
  return { prefix, receiver, gate, server, drover, options, exporting, start };
}

const named = (spans: ReceivedSpan[], name: string): ReceivedSpan[] => spans.filter((span) => span.name === name);

/** The one span with that name. */
function only(spans: ReceivedSpan[], name: string): ReceivedSpan {
  const [span, ...others] = named(spans, name);
  if (!span || others.length > 0) throw new Error(`${others.length + (span ? 1 : 0)} spans are named ${name}`);
  return span;
}

/** What is wrong with the tree of a run, in words: this is what every trace must satisfy, whatever happened. */
function problemsOf(spans: ReceivedSpan[], rootParent: string | undefined): string[] {
  const ids = new Set(spans.map((span) => span.spanId));
  const root = only(spans, "invoke_agent traveller");
  const steps = spans.filter((span) => /^(chat|execute_tool|drover)/.test(span.name));
  return [
    ...(ids.size === spans.length ? [] : ["a span id came twice"]),
    ...(new Set(spans.map((span) => span.traceId)).size === 1 ? [] : ["there are several traces"]),
    ...(root.parentSpanId === rootParent ? [] : [`the root hangs under ${root.parentSpanId}`]),
    ...steps.flatMap((span) => (span.parentSpanId === root.spanId ? [] : [`${span.name} is no child of the root`])),
    ...spans.flatMap((span) =>
      span === root || ids.has(span.parentSpanId ?? "") ? [] : [`the parent of ${span.name} never came`],
    ),
  ];
}

const namesOf = (spans: ReceivedSpan[]): string[] => spans.map((span) => span.name).sort();
const instanceOf = (span: ReceivedSpan): unknown => span.resource["service.instance.id"];
const ranIn = ({ pid }: TraceProcess): unknown => expect.stringMatching(new RegExp(`-${pid}-[0-9a-f]{8}$`));

async function readFeed(world: World, runId: string): Promise<RunFeedEvent[]> {
  const events: RunFeedEvent[] = [];
  for await (const event of world.drover.get(runId).events()) events.push(event);
  return events;
}

/** Resolves with the call that waits for a person. */
async function askedFor(world: World, runId: string): Promise<string> {
  for await (const event of world.drover.get(runId).events()) if (event.type === "approval_asked") return event.callId;
  throw new Error(`${runId} ended without asking anybody`);
}

const call = (name: string, note: string): { name: string; arguments: { note: string } } => ({
  name,
  arguments: { note },
});

describe("a run over three processes", () => {
  /** A busy server, three calls at once of which one is tried again, an approval beside a call that fails, an answer. */
  function respond({ index, body }: FakeRequest): FakeAnswer {
    if (index === 0) return { status: 503, body: { error: { message: "busy" } } };
    const turn = turnOf(body);
    if (turn === 1) return { toolCalls: [call("look", "a"), call("look", "b"), call("flaky", "c")] };
    if (turn === 2) return { toolCalls: [call("pay", "d"), call("broken", "e")] };
    return "done";
  }

  test("[D16] a run over three processes is one trace under its producer's span: one root, every step right under it, nothing twice", async () => {
    const world = await makeWorld(respond);
    const [a, b, producer] = await Promise.all([world.start(1), world.start(1), world.start(0)]);
    const runId = "trip-1";
    await producer.ask({ type: "start", runId, input: "go", session: "customer-7", traceparent });
    // Each worker takes one tool at a time, so that two at once are in both.
    const looks = [await world.gate.next({ what: "look" }), await world.gate.next({ what: "look" })];
    expect(looks.map(({ pid }) => pid).sort()).toEqual([a.pid, b.pid].sort());
    for (const visit of looks) visit.release();
    await producer.ask({ type: "approve", runId, callId: await askedFor(world, runId) });
    expect(await world.drover.get(runId).result({ timeoutMs })).toMatchObject({ status: "completed", output: "done" });
    const view = await world.drover.get(runId).status();
    const feed = await readFeed(world, runId);
    await Promise.all([a.stop(), b.stop(), producer.stop()]);

    const { spans } = world.receiver;
    expect(namesOf(spans)).toEqual([
      ...Array.from({ length: 4 }, () => "chat fake-1"),
      ...["drover.approval", "drover.run.start", "execute_tool broken", "execute_tool flaky", "execute_tool flaky"],
      ...["execute_tool look", "execute_tool look", "execute_tool pay", "invoke_agent traveller"],
      ...["look up", "look up", "query", "query"],
    ]);
    expect(problemsOf(spans, parentSpanId)).toEqual([]);
    for (const span of spans) expect(span.traceId).toBe(traceId);
    expect(view.traceId).toBe(traceId);

    expectRoot(spans, view);
    expectModelCalls(spans, Number(new URL(world.server.url).port));
    expectTools(spans);
    expectApproval(spans, feed);
    expectTimes(spans);
    // Spans of the tool's own code: under the tool's span, which came later, and in turn over their own.
    const toolSpans = named(spans, "execute_tool look").map(({ spanId }) => spanId);
    expect(
      named(spans, "look up")
        .map((span) => span.parentSpanId)
        .sort(),
    ).toEqual(toolSpans.sort());
    expect(new Set(named(spans, "query").map((span) => span.parentSpanId))).toEqual(
      new Set(named(spans, "look up").map(({ spanId }) => spanId)),
    );

    expect(new Set(named(spans, "execute_tool look").map(instanceOf)).size).toBe(2);
    expect(new Set(spans.map(instanceOf)).size).toBe(3);
    for (const name of ["drover.run.start", "drover.approval"]) {
      expect(instanceOf(only(spans, name))).toEqual(ranIn(producer));
    }
  });

  const ofRun = {
    "drover.run.id": "trip-1",
    "gen_ai.agent.name": "traveller",
    "gen_ai.conversation.id": "customer-7",
  };

  function expectRoot(spans: ReceivedSpan[], view: { createdAt: number; endedAt?: number | undefined }): void {
    const root = only(spans, "invoke_agent traveller");
    expect(root).toMatchObject({ kind: internal, status: unset, startMs: view.createdAt, endMs: view.endedAt });
    expect(root.attributes).toEqual({
      ...ofRun,
      "gen_ai.operation.name": "invoke_agent",
      // Three answers of 10 and 5 tokens.
      "gen_ai.usage.input_tokens": 30,
      "gen_ai.usage.output_tokens": 15,
      "drover.status": "completed",
      "drover.stop_reason": "answered",
      "drover.turns": 3,
    });
  }

  function expectModelCalls(spans: ReceivedSpan[], port: number): void {
    const place = ({ attributes }: ReceivedSpan): number =>
      10 * Number(attributes["drover.turn"]) + Number(attributes["drover.attempt"]);
    const chats = named(spans, "chat fake-1").sort((one, other) => place(one) - place(other));
    const request = {
      ...ofRun,
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "fake-1",
      "gen_ai.request.temperature": 0.5,
      "gen_ai.request.max_tokens": 100,
      "server.address": "127.0.0.1",
      "server.port": port,
    };
    const answer = (finishReason: string): Record<string, unknown> => ({
      "gen_ai.request.stream": true,
      "gen_ai.response.finish_reasons": [finishReason],
      "gen_ai.response.id": "chatcmpl-fake",
      "gen_ai.response.model": "fake-1",
      "gen_ai.response.time_to_first_chunk": expect.any(Number),
      "gen_ai.usage.input_tokens": 10,
      "gen_ai.usage.output_tokens": 5,
    });
    const step = (turn: number, attempt: number): Record<string, unknown> => ({
      "drover.step": `model-${turn}`,
      "drover.turn": turn,
      "drover.attempt": attempt,
    });
    const expected = [
      { status: failed, attributes: { ...step(1, 1), "error.type": "http_503" } },
      { status: unset, attributes: { ...step(1, 2), ...answer("tool_calls") } },
      { status: unset, attributes: { ...step(2, 1), ...answer("tool_calls") } },
      { status: unset, attributes: { ...step(3, 1), ...answer("stop") } },
    ];
    expect(chats).toMatchObject(
      expected.map(({ status, attributes }) => ({ kind: client, status, attributes: { ...request, ...attributes } })),
    );
    for (const name of ["error.type", "gen_ai.usage.input_tokens", "gen_ai.response.id"]) {
      expect(chats.filter(({ attributes }) => name in attributes)).toHaveLength(name === "error.type" ? 1 : 3);
    }
  }

  function expectTools(spans: ReceivedSpan[]): void {
    const tools = spans.filter(({ name }) => name.startsWith("execute_tool"));
    for (const span of tools) {
      const tool = span.name.replace("execute_tool ", "");
      expect(span.kind).toBe(internal);
      expect(span.attributes).toMatchObject({
        ...ofRun,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": expect.stringContaining(tool),
        "gen_ai.tool.description": `The tool ${tool}. Example: {"note":"a"}`,
        "drover.tool.effect": tool === "pay" ? "irreversible" : "read",
      });
    }
    const ends = tools.map(({ name, status, attributes }) => [
      name.replace("execute_tool ", ""),
      attributes["drover.call.id"],
      attributes["drover.attempt"],
      status,
      attributes["error.type"],
    ]);
    expect(ends.sort()).toEqual([
      ["broken", "call-2-2", 1, failed, "threw"],
      ["flaky", "call-1-3", 1, failed, "retryable"],
      ["flaky", "call-1-3", 2, unset, undefined],
      ["look", "call-1-1", 1, unset, undefined],
      ["look", "call-1-2", 1, unset, undefined],
      ["pay", "call-2-1", 1, unset, undefined],
    ]);
  }

  function expectApproval(spans: ReceivedSpan[], feed: RunFeedEvent[]): void {
    const at = (type: string): number | undefined => {
      const event = feed.find((other) => other.type === type);
      return event && "at" in event ? event.at : undefined;
    };
    expect(only(spans, "drover.approval")).toMatchObject({
      kind: internal,
      status: unset,
      startMs: at("approval_asked"),
      endMs: at("approved"),
      attributes: {
        ...ofRun,
        "gen_ai.tool.name": "pay",
        "drover.call.id": "call-2-1",
        "drover.approval.decision": "approved",
        "drover.approval.by": "ann",
      },
    });
  }

  /** Where the time of a step went: its wait before it begins, the rest is its own. */
  function expectTimes(spans: ReceivedSpan[]): void {
    const root = only(spans, "invoke_agent traveller");
    for (const span of spans.filter(({ name }) => /^(chat|execute_tool)/.test(name))) {
      const ms = (name: string): number => Number(span.attributes[`drover.${name}_ms`]);
      expect(ms("perform") + ms("commit")).toBe(span.endMs - span.startMs);
      for (const name of ["queue_wait", "load", "perform", "commit"]) expect(ms(name)).toBeGreaterThanOrEqual(0);
      expect(span.startMs - ms("load") - ms("queue_wait")).toBeGreaterThanOrEqual(root.startMs - apartMs);
      // The commit that ended the run is part of the step that made it.
      expect(span.endMs - ms("commit")).toBeLessThanOrEqual(root.endMs + apartMs);
    }
  }
});

describe("a worker that is killed with a step in hand", () => {
  const respond = ({ body }: FakeRequest): FakeAnswer =>
    turnOf(body) === 1 ? { toolCalls: [call("look", "a")] } : "done";

  /** Everything up to the tool is done by one worker; it is killed, and another does the rest. */
  async function killOneOfTwo(world: World, env: Record<string, string>, untilKilled: string[]): Promise<void> {
    const victim = await world.start(10, env);
    const runs = new Queue("runs", { connection: { url: world.options.redisUrl }, prefix: `${world.prefix}:q` });
    onTestFinished(() => runs.close());
    // What a BullMQ with a tracer of its own adds to a job must not become anybody's parent.
    const metadata = JSON.stringify({ traceparent: "00-11111111111111111111111111111111-2222222222222222-01" });
    const data = { agent: "traveller", input: "go", traceparent };
    await runs.add("start", data, { jobId: "trip-2", telemetry: { metadata } });
    await world.gate.next({ what: "look", pid: victim.pid });
    const heir = await world.start(10);
    await world.receiver.waitFor((spans) => namesOf(spans).join() === untilKilled.join(), timeoutMs);
    await victim.kill9();
    const again = await world.gate.next({ what: "look", pid: heir.pid });
    again.release();
    expect(await world.drover.get("trip-2").result({ timeoutMs })).toMatchObject({ status: "completed" });
    await heir.stop();
    expect(instanceOf(only(world.receiver.spans, "invoke_agent traveller"))).toEqual(ranIn(heir));
    expect(problemsOf(world.receiver.spans, parentSpanId)).toEqual([]);
  }

  test("[D16] a worker killed with a step in hand leaves a whole trace if its last export interval had passed, its tool's span being its heir's", async () => {
    const world = await makeWorld(respond, { lockMs: 3_000 });
    const exported = ["chat fake-1", "drover.run.start", "look up", "query"];
    await killOneOfTwo(world, world.exporting, exported);
    const { spans } = world.receiver;
    expect(namesOf(spans)).toEqual([
      ...["chat fake-1", "chat fake-1", "drover.run.start", "execute_tool look", "invoke_agent traveller"],
      ...["look up", "look up", "query", "query"],
    ]);
    const tool = only(spans, "execute_tool look");
    expect(named(spans, "look up").map((span) => span.parentSpanId)).toEqual([tool.spanId, tool.spanId]);
    expect(new Set(named(spans, "look up").map(instanceOf)).size).toBe(2);
  });

  test("[D16] a worker killed with a step in hand takes along what it had not exported, and nothing else", async () => {
    const world = await makeWorld(respond, { lockMs: 3_000 });
    await killOneOfTwo(world, { ...world.exporting, OTEL_BSP_SCHEDULE_DELAY: "600000" }, []);
    expect(namesOf(world.receiver.spans)).toEqual([
      ...["chat fake-1", "execute_tool look", "invoke_agent traveller", "look up", "query"],
    ]);
    const root = only(world.receiver.spans, "invoke_agent traveller");
    // Of the run as a whole nothing is lost.
    expect(root.attributes).toMatchObject({ "gen_ai.usage.input_tokens": 20, "drover.turns": 2 });
  });
});

test("[D16] a run that failed and is retried keeps its root; each later end is a span under it", async () => {
  const unauthorized = { status: 401, body: { error: { message: "bad key" } } };
  const world = await makeWorld(({ index }) => (index < 2 ? unauthorized : "done"));
  const [worker, producer] = await Promise.all([world.start(10), world.start(0)]);
  const runId = "trip-3";
  const input = { runId, input: "go" };
  const active = await producer.ask({ type: "start_in_span", spanName: "POST /trips", ...input });
  const results = [];
  for (const retry of [true, true, false]) {
    results.push(await world.drover.get(runId).result({ timeoutMs }));
    if (retry) await producer.ask({ type: "retry", runId });
  }
  expect(results.map(({ status }) => status)).toEqual(["failed", "failed", "completed"]);
  await Promise.all([worker.stop(), producer.stop()]);
  const { spans } = world.receiver;
  expect(namesOf(spans)).toEqual([
    ...["POST /trips", "chat fake-1", "chat fake-1", "chat fake-1", "drover.run.end", "drover.run.end"],
    ...["drover.run.start", "invoke_agent traveller"],
  ]);
  const request = only(spans, "POST /trips");
  expect(request).toMatchObject({ parentSpanId: undefined, ...(active as { traceId: string; spanId: string }) });
  const run = spans.filter((span) => span !== request);
  expect(new Set(spans.map((span) => span.traceId)).size).toBe(1);
  expect(problemsOf(run, request.spanId)).toEqual([]);
  const ends = [only(run, "invoke_agent traveller"), ...named(run, "drover.run.end")];
  expect(
    ends
      .sort((one, other) => one.endMs - other.endMs)
      .map(({ name, status, attributes }) => [
        name,
        status,
        attributes["error.type"],
        attributes["drover.stop_reason"],
      ]),
  ).toEqual([
    ["invoke_agent traveller", failed, "unauthorized", "model_error"],
    ["drover.run.end", failed, "unauthorized", "model_error"],
    ["drover.run.end", unset, undefined, "answered"],
  ]);
});

test("[D16] a cancelled run gets its root from the process that cancelled it; the step it cut off has no span", async () => {
  const world = await makeWorld(() => ({ toolCalls: [call("wait", "a")] }));
  const [worker, producer] = await Promise.all([world.start(10), world.start(0)]);
  const runId = "trip-4";
  await producer.ask({ type: "start", runId, input: "go", traceparent });
  const visit = await world.gate.next({ what: "wait" });
  expect(await producer.ask({ type: "cancel", runId })).toBe(true);
  await visit.closed;
  expect(await world.drover.get(runId).result({ timeoutMs })).toMatchObject({ status: "cancelled" });
  await Promise.all([worker.stop(), producer.stop()]);
  const { spans } = world.receiver;
  expect(namesOf(spans)).toEqual(["chat fake-1", "drover.run.start", "invoke_agent traveller"]);
  expect(problemsOf(spans, parentSpanId)).toEqual([]);
  const root = only(spans, "invoke_agent traveller");
  expect(instanceOf(root)).toEqual(ranIn(producer));
  expect(root).toMatchObject({ status: unset, attributes: { "drover.stop_reason": "cancelled", "drover.turns": 1 } });
});

const aboutTelemetry = /telemetry|otlp|otel|collector|span|trac(e|ing)/i;

/** What a process printed, without the trace id that each line about a run bears. */
function told(worker: TraceProcess): string {
  return worker.output().replaceAll(/"traceId":"[0-9a-f]{32}"/g, "");
}

const canary = {
  instructions: "canary-instructions",
  input: "canary-input",
  argument: "canary-argument",
  result: "canary-result",
  error: "canary-error",
  answer: "canary-answer",
};

describe("what leaves the process", () => {
  function respond({ index, body }: FakeRequest): FakeAnswer {
    if (index === 0) return { status: 503, body: { error: { message: canary.error } } };
    if (turnOf(body) > 1) return canary.answer;
    return { text: canary.answer, toolCalls: [call("look", canary.argument), call("broken", canary.error)] };
  }

  /** A run full of content, from its start to the end of the worker's process. */
  async function runWith(
    env: (world: World) => Record<string, string>,
    given: { traceparent?: string } = {},
  ): Promise<{ world: World; worker: TraceProcess; loaded: unknown }> {
    const world = await makeWorld(respond, { instructions: canary.instructions });
    const worker = await world.start(10, env(world));
    const run = await world.drover.start("traveller", canary.input, { runId: "trip-5", ...given });
    const visit = await world.gate.next({ what: "look" });
    visit.release(canary.result);
    expect(await run.result({ timeoutMs })).toMatchObject({ status: "completed", output: canary.answer });
    const loaded = await worker.ask({ type: "loaded" });
    await worker.stop();
    return { world, worker, loaded };
  }

  const everything = (world: World): string => Buffer.concat(world.receiver.bodies).toString();

  test("by default no content: not in a span, not in what a process prints", async () => {
    const { world, worker } = await runWith((it) => it.exporting);
    expect(problemsOf(world.receiver.spans, undefined)).toEqual([]);
    expect(everything(world)).not.toContain("canary");
    expect(worker.output()).not.toContain("canary");
  });

  test("content when it is asked for, each in its attribute", async () => {
    const { world } = await runWith((it) => ({
      ...it.exporting,
      OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true",
    }));
    const { spans } = world.receiver;
    const chat = named(spans, "chat fake-1").find(({ attributes }) => attributes["drover.turn"] === 2);
    const parsed = (span: ReceivedSpan | undefined, name: string): unknown =>
      JSON.parse(String(span?.attributes[name] ?? "null"));
    expect(parsed(chat, "gen_ai.system_instructions")).toEqual([{ type: "text", content: canary.instructions }]);
    expect(parsed(chat, "gen_ai.input.messages")).toMatchObject([
      { role: "user", parts: [{ type: "text", content: canary.input }] },
      {
        role: "assistant",
        parts: [
          { type: "text", content: canary.answer },
          { type: "tool_call", name: "look", arguments: { note: canary.argument } },
          { type: "tool_call", name: "broken", arguments: { note: canary.error } },
        ],
      },
      { role: "tool", parts: [{ type: "tool_call_response", response: canary.result }] },
      { role: "tool", parts: [{ type: "tool_call_response", response: expect.stringContaining(canary.error) }] },
    ]);
    expect(parsed(chat, "gen_ai.output.messages")).toEqual([
      { role: "assistant", parts: [{ type: "text", content: canary.answer }], finish_reason: "stop" },
    ]);
    const tool = only(spans, "execute_tool look");
    expect(parsed(tool, "gen_ai.tool.call.arguments")).toEqual({ note: canary.argument });
    expect(parsed(tool, "gen_ai.tool.call.result")).toBe(canary.result);
  });

  test("nothing without an endpoint, and no SDK is loaded; with one it is", async () => {
    const without = await runWith(() => ({}));
    expect(without.loaded).toEqual([]);
    expect(told(without.worker)).not.toMatch(aboutTelemetry);
    const { loaded } = await runWith((it) => it.exporting);
    expect(loaded).toEqual(expect.arrayContaining([expect.stringContaining("@opentelemetry/sdk-trace")]));
  });

  test.each([
    ["where the SDK is disabled", { OTEL_SDK_DISABLED: "true" }, traceparent],
    ["where the exporter is none", { OTEL_TRACES_EXPORTER: "none" }, traceparent],
    ["of a run whose producer did not sample", {}, `00-${traceId}-${parentSpanId}-00`],
  ])("nothing %s, and nothing is said about it", async (_title, env, parent) => {
    const { world, worker } = await runWith((it) => ({ ...it.exporting, ...env }), { traceparent: parent });
    expect(world.receiver.paths).toEqual([]);
    expect(told(worker)).not.toMatch(aboutTelemetry);
  });
});
