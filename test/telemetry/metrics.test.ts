import { setTimeout } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { z } from "zod";
import { RetryableError } from "../../src/core/errors.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { createMemoryDrover } from "../../src/testing/memory-drover.ts";
import { scriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { seriesOf, startMetrics, total } from "../support/metrics.ts";
import { aRun, ended, fleetView, modelSpan, toolSpan } from "./fixtures.ts";

const note = z.object({ note: z.string().describe("What it is about") });
const look = defineTool({
  name: "look",
  description: 'Looks. Example: {"note":"a"}',
  parameters: note,
  effect: "read",
  retry: { attempts: 2, delayMs: 10 },
  execute({ note: about }, { attempt }) {
    if (about === "flaky" && attempt === 1) throw new RetryableError("busy");
    return about;
  },
});
const pay = defineTool({
  name: "pay",
  description: 'Pays. Example: {"note":"a"}',
  parameters: note,
  effect: "irreversible",
  execute: ({ note: about }) => about,
});
const call = (name: string, about: string) => ({ name, arguments: { note: about } });
const usage = { inputTokens: 100, outputTokens: 10, cachedTokens: 40, costUsd: 0.5 };
const model = scriptedModel([
  {
    toolCalls: [call("look", "here"), call("look", "flaky"), call("made_up_by_the_model", "x")],
    usage,
    fail: [{ class: "transient", code: "rate_limited", message: "slow down" }],
  },
  { toolCalls: [call("pay", "rent")], usage },
  { text: "done", usage },
]);
const agent = defineAgent({ name: "support", instructions: "", model, tools: [look, pay] });
const chat = {
  "gen_ai.agent.name": "support",
  "gen_ai.operation.name": "chat",
  "gen_ai.provider.name": "drover",
  "gen_ai.request.model": "scripted",
};

test("a run with a failed attempt, a retried tool, an unknown tool and an approval, counted to the last", async () => {
  const { telemetry, read, lines } = startMetrics();
  const drover = createMemoryDrover({ agents: [agent], telemetry });
  await drover.work();
  const run = await drover.start(agent, "go");
  for await (const event of run.events()) {
    if (event.type === "approval_asked") await run.approve(event.callId, { by: "ann" });
  }
  await drover.close();
  const all = await read();
  expect(seriesOf(all, "drover.run.started")).toEqual([{ labels: { "gen_ai.agent.name": "support" }, value: 1 }]);
  expect(seriesOf(all, "drover.run.ended")).toEqual([
    {
      labels: { "gen_ai.agent.name": "support", "drover.status": "completed", "drover.stop_reason": "answered" },
      value: 1,
    },
  ]);
  expect(seriesOf(all, "gen_ai.invoke_agent.inference_calls")).toMatchObject([{ count: 1, value: 3 }]);
  expect(seriesOf(all, "gen_ai.client.inference.duration")).toMatchObject([
    { labels: { ...chat, "error.type": "rate_limited" }, count: 1 },
    { labels: chat, count: 3 },
  ]);
  const modality = { ...chat, "gen_ai.token.modality": "unknown" };
  expect(seriesOf(all, "gen_ai.client.inference.usage.input_tokens")).toEqual([{ labels: modality, value: 300 }]);
  expect(seriesOf(all, "gen_ai.client.inference.usage.output_tokens")).toEqual([{ labels: modality, value: 30 }]);
  expect(seriesOf(all, "gen_ai.client.inference.usage.cache_read.input_tokens")).toMatchObject([{ value: 120 }]);
  expect(seriesOf(all, "gen_ai.client.inference.operation.input_tokens")).toMatchObject([{ count: 3, value: 300 }]);
  expect(seriesOf(all, "drover.cost")).toEqual([
    { labels: { "gen_ai.agent.name": "support", "gen_ai.request.model": "scripted" }, value: 1.5 },
  ]);
  const tool = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.type": "function",
    "gen_ai.agent.name": "support",
  };
  expect(seriesOf(all, "gen_ai.execute_tool.duration")).toMatchObject([
    { labels: { ...tool, "gen_ai.tool.name": "look", "error.type": "retryable" }, count: 1 },
    { labels: { ...tool, "gen_ai.tool.name": "look" }, count: 2 },
    { labels: { ...tool, "gen_ai.tool.name": "pay" }, count: 1 },
  ]);
  expect(seriesOf(all, "drover.approval.duration")).toMatchObject([
    { labels: { "drover.approval.decision": "approved" }, count: 1 },
  ]);
  expect(seriesOf(all, "drover.step.overhead")).toMatchObject([
    { labels: { "drover.step.kind": "model" }, count: 4 },
    { labels: { "drover.step.kind": "tool" }, count: 4 },
  ]);
  expect(total(all, "drover.step.queue_wait")).toBe(8);
  expect(JSON.stringify(all)).not.toContain("made_up_by_the_model");
  expect(JSON.stringify(all)).not.toContain(run.id);
  expect(lines).toEqual([]);
});

test("tokens of a call that was cut off are counted by the commit that reports them", async () => {
  const { telemetry, read } = startMetrics();
  const slow = scriptedModel([{ text: "never", delayMs: 60_000, usage }]);
  const drover = createMemoryDrover({
    agents: [defineAgent({ name: "slow", instructions: "", model: slow })],
    telemetry,
  });
  await drover.work();
  const run = await drover.start("slow", "go");
  for await (const { type } of run.events()) if (type === "run_began") await run.cancel({ by: "ann", reason: "no" });
  await drover.close();
  const all = await read();
  expect(seriesOf(all, "drover.run.ended")).toMatchObject([{ labels: { "drover.status": "cancelled" }, value: 1 }]);
  expect(total(all, "gen_ai.client.inference.duration")).toBe(0);
  expect((await run.status()).usage.inputTokens).toBe(total(all, "gen_ai.client.inference.usage.input_tokens"));
});

test("made-up agents get at most a hundred series, and none of them pushes out one that is known", async () => {
  const { telemetry, read } = startMetrics();
  for (let stranger = 0; stranger < 1_000; stranger += 1) {
    telemetry.recordEnd(ended({ ...aRun(telemetry), agent: `stranger-${stranger}` }));
  }
  telemetry.recordStep(modelSpan(aRun(telemetry)));
  telemetry.recordEnd(ended(aRun(telemetry)));
  const names = seriesOf(await read(), "drover.run.ended").map(({ labels }) => labels["gen_ai.agent.name"]);
  expect(names).toHaveLength(102);
  expect(names).toContain("support");
  expect(names).toContain("_OTHER");
});

test("errors are told apart, within bounds", async () => {
  const { telemetry, read } = startMetrics();
  for (let code = 0; code < 500; code += 1) telemetry.recordStep(toolSpan(aRun(telemetry), { errorType: `e${code}` }));
  const errors = seriesOf(await read(), "gen_ai.execute_tool.duration").map(({ labels }) => labels["error.type"]);
  expect(errors).toHaveLength(101);
  expect(errors).toContain("_OTHER");
});

test("what is counted beside runs", async () => {
  const { telemetry, read } = startMetrics();
  telemetry.count({ what: "commit_conflict" });
  telemetry.count({ what: "sweep_repair" }, 3);
  telemetry.count({ what: "redelivery", queue: "tools" });
  telemetry.count({ what: "lock_lost", queue: "model" });
  telemetry.count({ what: "step_held", reason: "rate_limit" });
  telemetry.count({ what: "breaker_opened", tool: "look" });
  telemetry.count({ what: "run_rejected" });
  telemetry.count({ what: "run_removed", status: "failed" }, 3);
  telemetry.count({ what: "step_crashed" });
  telemetry.count({ what: "watcher" });
  telemetry.count({ what: "watcher" });
  telemetry.count({ what: "watcher" }, -1);
  const all = (await read()).filter(({ name }) => name.startsWith("drover."));
  expect(Object.fromEntries(all.map(({ name, labels, value }) => [name, { labels, value }]))).toEqual({
    "drover.commit.conflicts": { labels: {}, value: 1 },
    "drover.sweep.repairs": { labels: {}, value: 3 },
    "drover.step.redeliveries": { labels: { "drover.queue": "tools" }, value: 1 },
    "drover.step.locks_lost": { labels: { "drover.queue": "model" }, value: 1 },
    "drover.step.held": { labels: { "drover.hold.reason": "rate_limit" }, value: 1 },
    "drover.breaker.openings": { labels: { "gen_ai.tool.name": "look" }, value: 1 },
    "drover.run.rejected": { labels: {}, value: 1 },
    "drover.run.removed": { labels: { "drover.status": "failed" }, value: 3 },
    "drover.step.crashes": { labels: {}, value: 1 },
    "drover.http.watchers": { labels: {}, value: 1 },
  });
});

test("requests by their pattern; a method that nobody knows is no series of its own", async () => {
  const { telemetry, read } = startMetrics();
  telemetry.recordRequest({ method: "GET", route: "/runs/:id", status: 200, durationMs: 20 });
  telemetry.recordRequest({ method: "GET", route: "/runs/:id", status: 200, durationMs: 40 });
  telemetry.recordRequest({ method: "BREW", status: 500, scheme: "https", durationMs: 5 });
  const of = (method: string, status: number, scheme: string): object => ({
    "http.request.method": method,
    "http.response.status_code": status,
    "url.scheme": scheme,
  });
  expect(seriesOf(await read(), "http.server.request.duration")).toEqual([
    { labels: { ...of("GET", 200, "http"), "http.route": "/runs/:id" }, count: 2, value: 0.06 },
    { labels: { ...of("_OTHER", 500, "https"), "error.type": "500" }, count: 1, value: 0.005 },
  ]);
});

test("the fleet, as far as this process is to tell of it", async () => {
  const { telemetry, read } = startMetrics();
  const stop = telemetry.observeFleet(async () => fleetView);
  const all = await read();
  expect(seriesOf(all, "drover.queue.steps")).toContainEqual({
    labels: { "drover.queue": "model", "drover.queue.state": "waiting" },
    value: 3,
  });
  expect(seriesOf(all, "drover.queue.oldest_age")).toEqual([
    { labels: { "drover.queue": "model" }, value: 1.5 },
    { labels: { "drover.queue": "tools" }, value: 0 },
  ]);
  expect(seriesOf(all, "drover.breaker.open")).toEqual([
    { labels: { "gen_ai.tool.name": "look" }, value: 1 },
    { labels: { "gen_ai.tool.name": "pay" }, value: 0 },
  ]);
  expect(seriesOf(all, "drover.runs")).toContainEqual({ labels: { "drover.status": "waiting" }, value: 3 });
  expect(total(all, "drover.owing.oldest_age")).toBe(2);
  expect(total(all, "drover.redis.memory.used")).toBe(1_000);
  expect(total(all, "drover.redis.round_trip")).toBe(0.000_5);
  stop();
  expect(seriesOf(await read(), "drover.queue.steps")).toEqual([]);
});

test("another process's turn, or a Redis that is away: nothing is told of the fleet, and the rest is", async () => {
  const { telemetry, read } = startMetrics();
  telemetry.observeFleet(async () => undefined);
  telemetry.observeFleet(async () => {
    throw new Error("Redis is away");
  });
  const all = await read();
  expect(seriesOf(all, "drover.queue.steps")).toEqual([]);
  expect(total(all, "process.memory.usage")).toBeGreaterThan(1_000_000);
});

test("the process: memory, processor time by mode, and how late its event loop was", async () => {
  const { read } = startMetrics();
  await vi.waitUntil(async () => {
    const until = performance.now() + 150;
    while (performance.now() < until);
    // Its timer has to come by, before and after.
    await setTimeout(60);
    const late = total(await read(), "nodejs.eventloop.delay.max");
    return late > 0.05 && late < 60;
  });
  const all = await read();
  expect(seriesOf(all, "process.cpu.time").map(({ labels }) => labels["cpu.mode"])).toEqual(["user", "system"]);
});
