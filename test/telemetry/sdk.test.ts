// The real SDK against a real collector on a local port, in this process.
import { createRequire } from "node:module";
import { context, logs, metrics, propagation, trace } from "@opentelemetry/api";
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { stepSpanId } from "../../src/telemetry/ids.ts";
import { type StartedTelemetry, startTelemetry } from "../../src/telemetry/sdk.ts";
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from "../support/otlp-receiver.ts";
import { approval, aRun, canary, ended, modelSpan, recordingLogger, toolSpan } from "./fixtures.ts";

const loaded = (): string[] =>
  Object.keys(createRequire(import.meta.url).cache).filter((path) => path.includes("@opentelemetry/sdk-node/"));

let receiver: OtlpReceiver;
const started: StartedTelemetry[] = [];
const fixedTrace = { traceId: "0af7651916cd43dd8448eb211c80319c", rootSpanId: "b7ad6b7169203331", flags: 1 };
const logger = recordingLogger();

beforeEach(async () => {
  receiver = await startOtlpReceiver();
  logger.lines.length = 0;
});
afterEach(async () => {
  for (const one of started.splice(0)) await one.shutdown();
  await receiver.close();
  vi.unstubAllEnvs();
});

/** Starts telemetry as a process with these variables would; of metrics other tests tell. */
function start(given: Record<string, string>): StartedTelemetry {
  const env = { OTEL_METRICS_EXPORTER: "none", ...given };
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const one = startTelemetry(process.env, logger);
  started.push(one);
  return one;
}
const json = (): Record<string, string> => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
  OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  OTEL_BSP_SCHEDULE_DELAY: "20",
});

describe("off", () => {
  test.each([
    ["no endpoint", {}],
    ["an empty endpoint", { OTEL_EXPORTER_OTLP_ENDPOINT: "" }],
    ["OTEL_SDK_DISABLED", { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1", OTEL_SDK_DISABLED: "true" }],
    ["OTEL_TRACES_EXPORTER=none", { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1", OTEL_TRACES_EXPORTER: "none" }],
  ])("%s: nothing is loaded, registered or logged", async (_name, env) => {
    const { telemetry, shutdown } = start(env);
    const run = aRun(telemetry);
    telemetry.recordStep(modelSpan(run));
    telemetry.recordEnd(ended(run));
    await shutdown();
    expect(loaded()).toEqual([]);
    expect(trace.getTracer("user").startSpan("x").isRecording()).toBe(false);
    expect(logger.lines).toEqual([]);
  });

  test.each([
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" }, /OTLP protocol grpc is not supported/],
    [{ OTEL_TRACES_EXPORTER: "zipkin" }, /OTEL_TRACES_EXPORTER=zipkin is not supported/],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" }, /must be an http:\/\/ or https:\/\/ URL/],
  ])("what is not supported is said in one line: %j", (env, message) => {
    start({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, ...env });
    expect(loaded()).toEqual([]);
    expect(logger.lines.map((line) => line.message)).toEqual([expect.stringMatching(message)]);
  });
});

describe("on", () => {
  // First, since a meter provider that was registered once would stay.
  test("only traces are sent, though user code may count and log", async () => {
    const { telemetry, shutdown } = start(json());
    metrics.getMeter("user").createCounter("orders").add(1);
    logs.getLogger("user").emit({ body: "hello" });
    telemetry.recordEnd(ended(aRun(telemetry)));
    await shutdown();
    expect(receiver.paths).toEqual(["/v1/traces"]);
  });

  test("spans reach the collector with ids, parents, identity and headers, and without content", async () => {
    const { telemetry } = start({ ...json(), OTEL_EXPORTER_OTLP_HEADERS: "x-team=herd" });
    const run = aRun(telemetry);
    telemetry.recordStart(run);
    telemetry.recordStep(modelSpan(run));
    telemetry.recordStep(toolSpan(run));
    telemetry.recordEnd(ended(run));
    const spans = await receiver.waitFor((all) => all.length === 4);
    const root = spans.find((span) => span.parentSpanId === undefined);
    expect(root).toMatchObject({
      name: "invoke_agent support",
      spanId: run.trace.rootSpanId,
      kind: 1,
      startMs: run.createdAt,
    });
    for (const span of spans) {
      expect(span.traceId).toBe(run.trace.traceId);
      expect(span.resource).toMatchObject({
        "service.name": "drover",
        "service.instance.id": expect.stringMatching(new RegExp(`-${process.pid}-[0-9a-f]{8}$`)),
      });
      expect(Object.keys(span.resource)).not.toContain("process.command_args");
    }
    expect(receiver.headers[0]).toMatchObject({ "x-team": "herd" });
    expect(Buffer.concat(receiver.bodies).toString()).not.toContain(canary);
    expect(logger.lines).toEqual([]);
    expect(loaded()).not.toEqual([]);
  });

  test("content goes along when asked for, and the service has the name it was given", async () => {
    const { telemetry } = start({
      ...json(),
      OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "True",
      OTEL_SERVICE_NAME: "shop-agents",
    });
    telemetry.recordStep(modelSpan(aRun(telemetry)));
    const [span] = await receiver.waitFor((all) => all.length === 1);
    expect(span?.resource["service.name"]).toBe("shop-agents");
    expect(span?.attributes["gen_ai.input.messages"]).toContain(canary);
  });

  test("spans that go straight to the processor are those that a tracer makes, and limits of attributes hold", async () => {
    const send = async (env: Record<string, string>): Promise<ReceivedSpan[]> => {
      const { telemetry, shutdown } = start({ ...json(), ...env });
      const run = { ...aRun(telemetry), trace: fixedTrace };
      telemetry.recordStart(run);
      telemetry.recordStep(modelSpan(run));
      telemetry.recordStep(toolSpan(run, { errorType: "timeout" }));
      telemetry.recordApproval(run, approval);
      telemetry.recordEnd(ended(run, { status: "failed", stopReason: "deadline" }));
      await shutdown();
      return receiver.spans.splice(0);
    };
    const straight = await send({});
    // A limit has the tracer make them.
    expect(await send({ OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT: "10000" })).toEqual(straight);
    expect(straight).toHaveLength(5);
    const short = await send({ OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT: "4" });
    expect(short.map(({ attributes }) => attributes["gen_ai.agent.name"])).toEqual(Array.from(short, () => "supp"));
  });

  test("spans of user code hang under the step's span, which comes later", async () => {
    const { telemetry } = start(json());
    const run = aRun(telemetry);
    const headers: Record<string, string> = {};
    await telemetry.withStep(run, { kind: "tool", turn: 1, attempt: 1, owedAt: 2, callId: "call-1-1" }, async () => {
      await Promise.resolve();
      trace.getTracer("user").startSpan("look up").end();
      propagation.inject(context.active(), headers);
    });
    telemetry.recordStep(toolSpan(run));
    const spans = await receiver.waitFor((all) => all.length === 2);
    const step = spans.find((span) => span.name === "execute_tool refund");
    expect(spans.find((span) => span.name === "look up")).toMatchObject({
      traceId: run.trace.traceId,
      parentSpanId: step?.spanId,
    });
    expect(headers.traceparent).toBe(`00-${run.trace.traceId}-${step?.spanId}-01`);
    expect(step?.spanId).toBe(
      stepSpanId(run.runId, { kind: "tool", turn: 1, attempt: 1, owedAt: 2, callId: "call-1-1" }),
    );
  });

  test("spans of a tracer that was taken before, as modules do when they are loaded, are sent too", async () => {
    const early = trace.getTracer("module");
    const { shutdown } = start(json());
    early.startSpan("early").end();
    await shutdown();
    expect(receiver.spans.map((span) => span.name)).toEqual(["early"]);
  });

  test("a run started under an active span joins its trace", async () => {
    const { telemetry } = start(json());
    const request = trace.getTracer("user").startSpan("POST /orders");
    const run = context.with(trace.setSpan(context.active(), request), () => aRun(telemetry));
    expect(run.trace).toMatchObject({
      traceId: request.spanContext().traceId,
      parentSpanId: request.spanContext().spanId,
    });
    const other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const told = context.with(trace.setSpan(context.active(), request), () => aRun(telemetry, { traceparent: other }));
    expect(told.trace.traceId).toBe(other.slice(3, 35));
  });

  test("protobuf is the default form", async () => {
    const { telemetry, shutdown } = start({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${receiver.url}/v1/traces` });
    telemetry.recordEnd(ended(aRun(telemetry)));
    await shutdown();
    expect(receiver.headers[0]?.["content-type"]).toBe("application/x-protobuf");
    expect(receiver.bodies[0]?.toString("latin1")).toContain("invoke_agent support");
  });

  test("shutting down sends what is left; two users share one SDK; it can be started again", async () => {
    const [first, second] = [start({ ...json(), OTEL_BSP_SCHEDULE_DELAY: "60000" }), start({})];
    second.telemetry.recordEnd(ended(aRun(second.telemetry)));
    await first.shutdown();
    await first.shutdown();
    expect(receiver.spans).toHaveLength(0);
    await second.shutdown();
    expect(receiver.spans).toHaveLength(1);
    const third = start({});
    third.telemetry.recordEnd(ended(aRun(third.telemetry)));
    await third.shutdown();
    expect(receiver.spans).toHaveLength(2);
  });
});

describe("a collector in trouble", () => {
  const dead = {
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_EXPORTER_OTLP_TIMEOUT: "300",
    OTEL_BSP_SCHEDULE_DELAY: "5",
  };

  test.each(["hang", 503, 400] as const)("that answers %s costs one line and at most the bound", async (behaviour) => {
    receiver.behave(behaviour);
    const { telemetry, shutdown } = start({ ...dead, OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url });
    const run = aRun(telemetry);
    for (const attempt of [1, 2, 3]) {
      telemetry.recordStep(modelSpan(run, { attempt }));
      const seen = receiver.bodies.length;
      await vi.waitUntil(() => receiver.bodies.length > seen, 10_000);
    }
    await vi.waitUntil(() => logger.lines.length > 0, 10_000);
    const before = performance.now();
    await shutdown();
    expect(performance.now() - before).toBeLessThan(2_500);
    expect(logger.lines).toEqual([
      {
        message: "traces cannot be delivered; runs go on, spans are lost",
        fields: { collector: receiver.url, error: expect.any(String) },
      },
    ]);
  });

  test("that does not exist slows no step", async () => {
    const { telemetry, shutdown } = start({ ...dead, OTEL_EXPORTER_OTLP_ENDPOINT: "http://user:hunter2@127.0.0.1:9" });
    const run = aRun(telemetry);
    const before = performance.now();
    for (let attempt = 1; attempt <= 5_000; attempt += 1) telemetry.recordStep(toolSpan(run, { attempt }));
    // A tenth of a millisecond each would be far too slow already; usual are some microseconds.
    expect(performance.now() - before).toBeLessThan(1_500);
    await vi.waitUntil(() => logger.lines.length > 0, 10_000);
    await shutdown();
    expect(logger.lines).toHaveLength(1);
    expect(logger.lines[0]?.fields).toEqual({ collector: "http://127.0.0.1:9", error: "ECONNREFUSED" });
  });

  test("that never answers holds a shutdown up for two seconds at most", async () => {
    receiver.behave("hang");
    const { telemetry, shutdown } = start({ ...json(), OTEL_BSP_SCHEDULE_DELAY: "60000" });
    telemetry.recordEnd(ended(aRun(telemetry)));
    const before = performance.now();
    await shutdown();
    const took = performance.now() - before;
    expect(took).toBeGreaterThan(1_900);
    expect(took).toBeLessThan(2_500);
  });
});

test("a provider that the application registered is used, and left alone at the end", async () => {
  const exporter = new InMemorySpanExporter();
  trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }));
  try {
    const { telemetry, shutdown } = start(json());
    const run = aRun(telemetry);
    telemetry.recordStart(run);
    telemetry.recordEnd(ended(run));
    await shutdown();
    expect(exporter.getFinishedSpans().map((span) => span.name)).toEqual(["invoke_agent support", "drover.run.end"]);
    expect(receiver.bodies).toEqual([]);
    expect(trace.getTracer("user").startSpan("x").isRecording()).toBe(true);
  } finally {
    trace.disable();
  }
});
