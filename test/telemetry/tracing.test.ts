// Traces as two processes make them: each `process` below has its own tracer provider and its own telemetry, and they
// share nothing but the run. Would catch a second root, a wrong parent, a start time that is not the run's, and a span of an
// unsampled run.
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import * as sdkTrace from "@opentelemetry/sdk-trace";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { describe, expect, test } from "vitest";
import type { Run } from "../../src/core/run.ts";
import type { Traces } from "../../src/telemetry/combine.ts";
import { stepSpanId } from "../../src/telemetry/ids.ts";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import { createReservedIds } from "../../src/telemetry/reserved-ids.ts";
import { createSampler } from "../../src/telemetry/sampler.ts";
import { createTelemetry, createTelemetryOnForeignProvider } from "../../src/telemetry/tracing.ts";
import { approval, aRun, createdAt, definition, ended, modelSpan, recordingLogger, toolSpan } from "./fixtures.ts";

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

type Process = { telemetry: Traces; spans: () => ReadableSpan[] };

/** A process whose tracer provider is ours. */
function ownProcess(env: Record<string, string> = {}): Process {
  const exporter = new InMemorySpanExporter();
  const ids = createReservedIds();
  const provider = new TracerProvider({
    idGenerator: ids,
    sampler: createSampler(sdkTrace, env),
    spanProcessors: [new SimpleSpanProcessor({ exporter })],
  });
  const telemetry = createTelemetry({ tracer: provider.getTracer("drover"), ids, logger: recordingLogger() });
  return { telemetry, spans: () => exporter.getFinishedSpans() };
}

/** A process whose application registered its own provider. */
function foreignProcess(sampled = true): Process {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({
    sampler: sampled ? new AlwaysOnSampler() : new AlwaysOffSampler(),
    spanProcessors: [new SimpleSpanProcessor({ exporter })],
  });
  const telemetry = createTelemetryOnForeignProvider({
    tracer: provider.getTracer("drover"),
    logger: recordingLogger(),
  });
  return { telemetry, spans: () => exporter.getFinishedSpans() };
}

/** A whole run: started and ended in the first process, its steps in turns. */
function play(first: Process, second: Process, options: Parameters<typeof aRun>[1] = {}): Run {
  const run = aRun(first.telemetry, options);
  first.telemetry.recordStart(run);
  second.telemetry.recordStep(modelSpan(run));
  first.telemetry.recordApproval(run, approval);
  second.telemetry.recordStep(toolSpan(run));
  second.telemetry.recordStep(
    modelSpan(run, { turn: 2, owedAt: 4, startedAt: createdAt + 6_000, endedAt: createdAt + 8_000 }),
  );
  first.telemetry.recordEnd(ended(run));
  return run;
}

const idOf = (span: ReadableSpan): string => span.spanContext().spanId;
const startOf = (span: ReadableSpan): number => span.startTime[0] * 1000 + span.startTime[1] / 1e6;
const endOf = (span: ReadableSpan): number => span.endTime[0] * 1000 + span.endTime[1] / 1e6;
const named = (spans: ReadableSpan[], name: string): ReadableSpan => {
  const found = spans.find((span) => span.name === name);
  if (!found) throw new Error(`no span ${name}`);
  return found;
};

describe("a run over two processes", () => {
  const [first, second] = [ownProcess(), ownProcess()];
  const run = play(first, second, { session: "cust-7" });
  const spans = [...first.spans(), ...second.spans()];

  test("is one trace with one root, and everything else right under it", () => {
    expect(new Set(spans.map((span) => span.spanContext().traceId))).toEqual(new Set([run.trace.traceId]));
    const roots = spans.filter((span) => span.parentSpanContext === undefined);
    expect(roots.map(idOf)).toEqual([run.trace.rootSpanId]);
    const children = spans.filter((span) => span !== roots[0]);
    expect(children.map((span) => span.parentSpanContext?.spanId)).toEqual(children.map(() => run.trace.rootSpanId));
    expect(children.map((span) => span.name).sort()).toEqual(
      ["chat qwen3-32b", "chat qwen3-32b", "drover.approval", "drover.run.start", "execute_tool refund"].sort(),
    );
    expect(new Set(spans.map(idOf)).size).toBe(spans.length);
  });

  test("has kinds and true times, though the run is older than either process", () => {
    const seen = spans.map((span) => [span.name, span.kind, startOf(span) - createdAt, endOf(span) - createdAt]);
    expect(seen.sort((a, b) => Number(a[2]) - Number(b[2]) || Number(b[3]) - Number(a[3]))).toEqual([
      ["invoke_agent support", SpanKind.INTERNAL, 0, 9_000],
      ["drover.run.start", SpanKind.INTERNAL, 0, 0],
      ["chat qwen3-32b", SpanKind.CLIENT, 1_000, 2_000],
      ["drover.approval", SpanKind.INTERNAL, 2_500, 3_500],
      ["execute_tool refund", SpanKind.INTERNAL, 4_000, 5_000],
      ["chat qwen3-32b", SpanKind.CLIENT, 6_000, 8_000],
    ]);
  });

  test("names agent, conversation and run on every span", () => {
    for (const span of spans) {
      expect(span.attributes).toMatchObject({
        "gen_ai.agent.name": "support",
        "gen_ai.conversation.id": "cust-7",
        "drover.run.id": "order-42",
      });
    }
  });

  test("gives each step the id that follows from its name", () => {
    expect(idOf(named(spans, "execute_tool refund"))).toBe(
      stepSpanId("order-42", { kind: "tool", turn: 1, attempt: 1, owedAt: 2, callId: "call-1-1" }),
    );
  });
});

test("a step that failed has status ERROR and its error.type; the others have none", () => {
  const { telemetry, spans } = ownProcess();
  const run = aRun(telemetry);
  telemetry.recordStep(toolSpan(run, { errorType: "timeout" }));
  telemetry.recordStep(modelSpan(run, { errorType: "" }));
  telemetry.recordStep(modelSpan(run, { attempt: 2 }));
  expect(spans().map((span) => [span.status.code, span.attributes["error.type"]])).toEqual([
    [SpanStatusCode.ERROR, "timeout"],
    [SpanStatusCode.ERROR, "_OTHER"],
    [SpanStatusCode.UNSET, undefined],
  ]);
});

describe("the producer's trace", () => {
  test("is joined: the root hangs under the span that traceparent names", () => {
    const [first, second] = [ownProcess(), ownProcess()];
    const run = play(first, second, { traceparent });
    const root = named(first.spans(), "invoke_agent support");
    expect(root.spanContext()).toMatchObject({ traceId: traceparent.slice(3, 35), spanId: run.trace.rootSpanId });
    expect(root.parentSpanContext?.spanId).toBe(traceparent.slice(36, 52));
  });

  test("a malformed one is as good as none", () => {
    const { telemetry } = ownProcess();
    expect(aRun(telemetry, { traceparent: "00-zz" }).trace).toMatchObject({ flags: 1 });
    expect(aRun(telemetry, { traceparent: "00-zz" }).trace).not.toHaveProperty("parentSpanId");
  });

  test("is joined by a process with telemetry off, and such a run is traced elsewhere", () => {
    const worker = ownProcess();
    const run = play({ telemetry: createNoTelemetry(), spans: () => [] }, worker, { traceparent });
    worker.telemetry.recordEnd(ended(run));
    expect(named(worker.spans(), "invoke_agent support").parentSpanContext?.spanId).toBe(traceparent.slice(36, 52));
  });
});

describe("sampling is decided once, when the run is created", () => {
  test("a run found unsampled emits nothing anywhere", () => {
    const [first, second] = [ownProcess({ OTEL_TRACES_SAMPLER: "parentbased_always_off" }), ownProcess()];
    const run = play(first, second);
    expect(run.trace.flags).toBe(0);
    expect([...first.spans(), ...second.spans()]).toEqual([]);
  });

  test("an unsampled traceparent is respected", () => {
    const process = ownProcess();
    play(process, process, { traceparent: `${traceparent.slice(0, -2)}00` });
    expect(process.spans()).toEqual([]);
  });

  test("a run found sampled is whole, whatever ratio the workers have", () => {
    const none = { OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" };
    const worker = ownProcess(none);
    const run = aRun(ownProcess().telemetry);
    worker.telemetry.recordStep(modelSpan(run));
    worker.telemetry.recordEnd(ended(run));
    expect(worker.spans().map((span) => span.name)).toEqual(["chat qwen3-32b", "invoke_agent support"]);
  });

  test("about the asked share of runs is sampled", () => {
    const { telemetry } = ownProcess({ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.25" });
    const sampled = Array.from({ length: 2_000 }, () => telemetry.startTrace("run-a").flags).filter(
      (flags) => flags === 1,
    );
    // Twelve standard deviations on either side.
    expect(sampled.length).toBeGreaterThan(260);
    expect(sampled.length).toBeLessThan(740);
  });

  test("always_off silences a process", () => {
    const worker = ownProcess({ OTEL_TRACES_SAMPLER: "always_off" });
    worker.telemetry.recordEnd(ended(aRun(createNoTelemetry())));
    expect(worker.spans()).toEqual([]);
  });
});

describe("on the application's own provider", () => {
  test("the root is short and comes at the start, steps hang under it, the end carries the totals", () => {
    const process = foreignProcess();
    const run = play(process, process, { traceparent });
    const spans = process.spans();
    const root = named(spans, "invoke_agent support");
    expect(idOf(root)).toBe(run.trace.rootSpanId);
    expect(root.parentSpanContext?.spanId).toBe(traceparent.slice(36, 52));
    expect(spans.filter((span) => span.name.startsWith("invoke_agent"))).toHaveLength(1);
    for (const span of spans.filter((other) => other !== root)) {
      expect(span.parentSpanContext?.spanId).toBe(run.trace.rootSpanId);
    }
    expect(named(spans, "drover.run.end").attributes).toMatchObject({ "drover.stop_reason": "answered" });
  });

  test("a worker with its own provider does not emit that root again", () => {
    const worker = ownProcess();
    play(foreignProcess(), worker);
    const [producer, other] = [foreignProcess(), ownProcess()];
    const run = aRun(producer.telemetry);
    producer.telemetry.recordStart(run);
    other.telemetry.recordEnd(ended(run));
    expect(other.spans().map((span) => [span.name, span.parentSpanContext?.spanId])).toEqual([
      ["drover.run.end", run.trace.rootSpanId],
    ]);
  });

  test("a step's span is begun with its user code and emitted only once its outcome is recorded", async () => {
    const { telemetry, spans } = foreignProcess();
    const run = aRun(telemetry);
    await telemetry.withStep(run, { kind: "model", turn: 1, attempt: 1, owedAt: 1 }, async () => {});
    expect(spans()).toEqual([]);
    telemetry.recordStep(modelSpan(run));
    expect(spans().map((span) => [span.name, span.attributes["gen_ai.request.model"]])).toEqual([
      ["chat qwen3-32b", definition.model],
    ]);
  });

  test("unsampled means nothing", () => {
    const process = foreignProcess(false);
    play(process, process);
    expect(process.spans()).toEqual([]);
  });
});

describe("telemetry that breaks", () => {
  test("never reaches the engine and is told once", async () => {
    const logger = recordingLogger();
    const broken = {
      startSpan: () => {
        throw new Error("no spans today");
      },
    } as never;
    for (const telemetry of [
      createTelemetry({ tracer: broken, ids: createReservedIds(), logger }),
      createTelemetryOnForeignProvider({ tracer: broken, logger }),
    ]) {
      logger.lines.length = 0;
      const run = play({ telemetry, spans: () => [] }, { telemetry, spans: () => [] }, { traceparent });
      expect(run.trace).toMatchObject({ traceId: traceparent.slice(3, 35), flags: 1 });
      let calls = 0;
      const step = telemetry.withStep(run, { kind: "tool", turn: 1, attempt: 1, callId: "c", owedAt: 1 }, async () => {
        calls += 1;
        throw new Error("the tool's own");
      });
      await expect(step).rejects.toThrow("the tool's own");
      expect(calls).toBe(1);
      expect(logger.lines).toEqual([
        { fields: { error: "no spans today" }, message: "telemetry failed; runs go on without it" },
      ]);
    }
  });
});

test("chosen ids reach exactly one span", () => {
  const ids = createReservedIds();
  const chosen = { traceId: "1".repeat(32), spanId: "2".repeat(16) };
  ids.use(chosen, () => {
    expect(ids.generateSpanId()).toBe(chosen.spanId);
    expect(ids.generateSpanId()).not.toBe(chosen.spanId);
  });
  expect(ids.generateTraceId()).not.toBe(chosen.traceId);
});
