// The thread that sends spans, where it does not simply work.
import { createRequire } from "node:module";
import type { ReadableSpan, SpanProcessor } from "@opentelemetry/sdk-trace";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import { openSpanChannel, type SpanChannel } from "../../src/telemetry/span-channel.ts";
import { planEnd } from "../../src/telemetry/spans.ts";
import { type OtlpReceiver, startOtlpReceiver } from "../support/otlp-receiver.ts";
import { aRun, ended, recordingLogger } from "./fixtures.ts";

const { resourceFromAttributes } = createRequire(import.meta.url)(
  "@opentelemetry/resources",
) as typeof import("@opentelemetry/resources");

const logger = recordingLogger();
afterEach(() => void (logger.lines.length = 0));

/** With a processor of its own, to see what is sent without the thread. */
async function open(): Promise<{ receiver: OtlpReceiver; channel: SpanChannel; here: ReadableSpan[] }> {
  const receiver = await startOtlpReceiver();
  onTestFinished(() => receiver.close());
  vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url);
  onTestFinished(() => void vi.unstubAllEnvs());
  const origin = {
    resource: resourceFromAttributes({ "service.name": "x" }),
    instrumentationScope: { name: "drover" },
  };
  const way = { endpoint: new URL(`${receiver.url}/v1/traces`), protocol: "http/json" } as const;
  const here: ReadableSpan[] = [];
  const processor: SpanProcessor = {
    onStart() {},
    onEnd: (span) => void here.push(span),
    forceFlush: async () => {},
    shutdown: async () => {},
  };
  const channel = openSpanChannel(origin, processor, way, logger);
  onTestFinished(() => channel.giveUp());
  return { receiver, channel, here };
}

const run = ended(aRun(createNoTelemetry()));
const put = (channel: SpanChannel): void => channel.put({ type: "plan", plan: planEnd(run), trace: run.trace });

/** Puts spans until the thread has started and takes them. */
async function untilThreaded({ channel, receiver }: { channel: SpanChannel; receiver: OtlpReceiver }): Promise<void> {
  await vi.waitUntil(() => {
    for (let count = 0; count < 300; count += 1) put(channel);
    return receiver.spans.length > 0;
  }, 20_000);
}

test("few spans start no thread, and shutting down has nothing to wait for", async () => {
  const { channel, receiver, here } = await open();
  for (let count = 0; count < 100; count += 1) put(channel);
  await channel.shutdown();
  expect(here).toHaveLength(100);
  expect(receiver.spans).toEqual([]);
});

test("many are sent by a thread, to the last one when it shuts down", async () => {
  const opened = await open();
  const { channel, receiver, here } = opened;
  await untilThreaded(opened);
  const [before, atFirst] = [here.length, receiver.spans.length];
  for (let count = 0; count < 50; count += 1) put(channel);
  await channel.shutdown();
  expect(here).toHaveLength(before);
  expect(receiver.spans.length).toBeGreaterThanOrEqual(atFirst + 50);
  expect(receiver.spans.at(-1)).toMatchObject({ traceId: run.trace.traceId, resource: { "service.name": "x" } });
  expect(logger.lines).toEqual([]);
});

test("a thread that fails is told of in one line, and from then on spans are sent without it", async () => {
  const opened = await open();
  const { channel, here } = opened;
  await untilThreaded(opened);
  channel.put({ type: "step", step: {} as never });
  await vi.waitUntil(() => logger.lines.length > 0, 10_000);
  expect(logger.lines.map(({ message }) => message)).toEqual([expect.stringContaining("sent without it")]);
  const before = here.length;
  put(channel);
  expect(here).toHaveLength(before + 1);
  await channel.shutdown();
});

test("spans beyond what the thread may be behind are dropped, which one line says", async () => {
  const opened = await open();
  const { channel } = opened;
  await untilThreaded(opened);
  for (let count = 0; count < 40_000; count += 1) put(channel);
  expect(logger.lines.map(({ message }) => message)).toEqual([expect.stringContaining("some are dropped")]);
});
