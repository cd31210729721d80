// Catches: a child's trace that hangs nowhere, or under another span than that of the call it is the execution of.
import { AsyncLocalStorage } from "node:async_hooks";
import { type Context, type ContextManager, context, ROOT_CONTEXT } from "@opentelemetry/api";
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent } from "../../src/define-agent.ts";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import { createReservedIds } from "../../src/telemetry/reserved-ids.ts";
import { createTelemetry } from "../../src/telemetry/tracing.ts";
import { createMemoryDrover, scriptedModel } from "../../src/testing/index.ts";
import { agentTool } from "../../src/tools/agent-tool.ts";
import { recordingLogger } from "./fixtures.ts";

const active = new AsyncLocalStorage<Context>();
/** What the SDK brings, as small as it can be. */
const manager: ContextManager = {
  active: () => active.getStore() ?? ROOT_CONTEXT,
  with: (own, work, that, ...args) => active.run(own, () => work.apply(that as never, args)),
  bind: (_own, target) => target,
  enable: () => manager,
  disable: () => manager,
};

beforeAll(() => void context.setGlobalContextManager(manager));
afterAll(() => context.disable());

test("a child is in its parent's trace, under the span of its call, which lasts as long as the child", async () => {
  const exporter = new InMemorySpanExporter();
  const ids = createReservedIds();
  const provider = new TracerProvider({ idGenerator: ids, spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  const traces = createTelemetry({ tracer: provider.getTracer("drover"), ids, logger: recordingLogger() });
  const helper = defineAgent({ name: "helper", instructions: "Help.", model: scriptedModel(["42"]) });
  const boss = defineAgent({
    name: "boss",
    instructions: "Ask.",
    model: scriptedModel([{ toolCalls: [{ name: "helper", arguments: { input: "go" } }] }, "done"]),
    tools: [agentTool({ agent: helper })],
  });
  const drover = createMemoryDrover({ agents: [boss, helper], telemetry: { ...createNoTelemetry(), ...traces } });
  await drover.work();
  const run = await drover.start("boss", "go");
  await run.result();
  await drover.close();
  const spans = exporter.getFinishedSpans();
  const named = (name: string) => spans.find((span) => span.name === name);
  const call = named("execute_tool helper");
  const child = named("invoke_agent helper");
  expect(new Set(spans.map((span) => span.spanContext().traceId)).size).toBe(1);
  expect(call?.parentSpanContext?.spanId).toBe(named("invoke_agent boss")?.spanContext().spanId);
  expect(child?.parentSpanContext?.spanId).toBe(call?.spanContext().spanId);
  expect(spans.filter(({ name }) => name === "execute_tool helper")).toHaveLength(1);
});
