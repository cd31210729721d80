// Catches: one endless trace, spans that never end, counts that are wrong, and content where nobody asked for it.
import * as sdkTrace from "@opentelemetry/sdk-trace";
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { expect, onTestFinished, test } from "vitest";
import { createDrover, type Drover } from "../../src/drover.ts";
import { combine } from "../../src/telemetry/combine.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { turnsPerTrace } from "../../src/telemetry/parts.ts";
import { createReservedIds } from "../../src/telemetry/reserved-ids.ts";
import { createSampler } from "../../src/telemetry/sampler.ts";
import { createTelemetry } from "../../src/telemetry/tracing.ts";
import { eventually } from "../support/eventually.ts";
import { startMetrics } from "../support/metrics.ts";
import { makeWorld } from "../support/world.ts";
import { most, tellFigure } from "./support/figure.ts";
import { scriptedAgent, wideAgent } from "./support/scripted-agent.ts";
import { isLong } from "./support/seed.ts";

const canary = "canary-34-c0de";
const turnCount = isLong ? 1_500 : 300;
const width = isLong ? 500 : 100;

test("[Q34] a long run and a wide one have bounded traces with links, right counts, and no content", async () => {
  const world = await makeWorld({ respond: () => "unused" });
  const exporter = new InMemorySpanExporter();
  const ids = createReservedIds();
  const provider = new TracerProvider({
    idGenerator: ids,
    sampler: createSampler(sdkTrace, {}),
    spanProcessors: [new SimpleSpanProcessor({ exporter })],
  });
  const metrics = startMetrics();
  const traces = createTelemetry({ tracer: provider.getTracer("drover"), ids, logger: createSilentLogger() });
  const drover: Drover = createDrover({
    redis: world.options.redisUrl,
    prefix: world.prefix,
    agents: [
      scriptedAgent({ turnCount, text: (turn) => `${canary} ${turn}`, note: (turn) => `${canary} ${turn}` }),
      wideAgent(width, canary),
    ],
    logger: createSilentLogger(),
    retention: { completed: 1_000 },
    telemetry: combine(traces, { ...metrics.telemetry, stop: () => undefined }),
  });
  onTestFinished(() => drover.close());
  await drover.work();
  const long = await drover.start("scripted", `go ${canary}`, { runId: "long-1" });
  const wide = await drover.start("wide", `go ${canary}`, { runId: "wide-1" });
  expect(await wide.result({ timeoutMs: 100_000 })).toMatchObject({ status: "completed" });
  expect(await long.result({ timeoutMs: 500_000 })).toMatchObject({ status: "completed", turns: turnCount });
  // What is removed stays counted.
  await eventually(async () => ((await drover.count()).completed === 0 ? true : undefined), 30_000);
  await drover.close();

  const spans = exporter.getFinishedSpans();
  expect(spans.every(({ ended }) => ended)).toBe(true);
  expect(JSON.stringify(spans.map(({ name, attributes, events }) => ({ name, attributes, events })))).not.toContain(
    canary,
  );
  const named = (begin: string): ReadableSpan[] => spans.filter(({ name }) => name.startsWith(begin));
  expect(named("chat").length).toBe(turnCount + 2);
  expect(named("execute_tool").length).toBe(turnCount - 1 + width);
  expect(named("invoke_agent").length).toBe(2);
  expect(new Set(spans.map((span) => span.spanContext().spanId)).size).toBe(spans.length);
  const byTrace = Map.groupBy(spans, (span) => span.spanContext().traceId);
  for (const own of byTrace.values()) {
    // A turn's answer and its calls, and a root with its marks.
    expect(own.length).toBeLessThanOrEqual(2 * Math.max(turnsPerTrace, width) + 5);
    const spanIds = new Set(own.map((span) => span.spanContext().spanId));
    expect(own.filter(({ parentSpanContext: parent }) => parent && !spanIds.has(parent.spanId))).toEqual([]);
    expect(own.filter(({ parentSpanContext }) => !parentSpanContext).length).toBe(1);
  }
  expect(byTrace.size).toBe(1 + Math.ceil(turnCount / turnsPerTrace));
  const root = named("invoke_agent scripted")[0]?.spanContext();
  for (const part of named("drover.run.part")) {
    expect(part.links.map(({ context }) => [context.traceId, context.spanId])).toEqual([[root?.traceId, root?.spanId]]);
  }
  const series = await metrics.read();
  const total = (name: string): number =>
    series.filter((one) => one.name === name).reduce((sum, one) => sum + (one.count ?? one.value), 0);
  expect(total("drover.run.started")).toBe(2);
  expect(total("drover.run.ended")).toBe(2);
  expect(total("gen_ai.execute_tool.duration")).toBe(turnCount - 1 + width);
  const largest = most([...byTrace.values()].map((own) => own.length));
  tellFigure("Q34", `${2 * turnCount} steps and ${width} at once: ${byTrace.size} traces of at most ${largest} spans`);
});
