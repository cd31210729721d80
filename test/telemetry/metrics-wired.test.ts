// Metrics as operators meet them: over a real Redis, read over HTTP from a worker and from the server.
import { expect, inject, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { defineAgent } from "../../src/define-agent.ts";
import { createDrover, type Drover } from "../../src/drover.ts";
import { createDroverServer } from "../../src/server.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { metrics } from "../../src/telemetry/metric-names.ts";
import { type MetricSpec, prometheusLabel, prometheusName } from "../../src/telemetry/metric-spec.ts";
import { scriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { promtool } from "../support/promtool.ts";
import { deletePrefix, testPrefix } from "../support/redis.ts";

const look = defineTool({
  name: "look",
  description: 'Looks. Example: {"note":"a"}',
  parameters: z.object({ note: z.string().describe("What it is about") }),
  effect: "read",
  concurrency: 2,
  breaker: { failures: 3, openMs: 1_000 },
  execute: ({ note }) => note,
});
const usage = { inputTokens: 100, outputTokens: 10, cachedTokens: 40, costUsd: 0.5 };
const model = scriptedModel([
  { toolCalls: [{ name: "look", arguments: { note: "here" } }], usage },
  { text: "done", usage },
]);
const agent = defineAgent({ name: "support", instructions: "", model, tools: [look] });

type World = { redis: string; prefix: string; logger: ReturnType<typeof createSilentLogger> };

function makeWorld(): World {
  const [redis, prefix] = [inject("redisUrl"), testPrefix()];
  onTestFinished(() => deletePrefix(redis, prefix));
  return { redis, prefix, logger: createSilentLogger() };
}

function open(world: World, options: Partial<Parameters<typeof createDrover>[0]> = {}): Drover {
  const drover = createDrover({ ...world, agents: [agent], ...options });
  onTestFinished(() => drover.close());
  return drover;
}

function valueOf(text: string, series: string): number | undefined {
  const line = text.split("\n").find((each) => each.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

async function freePort(): Promise<number> {
  const { createServer } = await import("node:net");
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test("a worker that is asked to serves what it counted and how the fleet is", async () => {
  const world = makeWorld();
  const port = await freePort();
  const drover = open(world, { metrics: { port } });
  await drover.work();
  const run = await drover.start(agent, "go");
  await run.result({ timeoutMs: 15_000 });
  const read = async (): Promise<string> => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  // A worker tells of itself a moment after it began.
  await vi.waitUntil(async () => (valueOf(await read(), "drover_workers") ?? 0) > 0, { timeout: 10_000 });
  const text = await read();
  expect(valueOf(text, 'drover_run_started_total{gen_ai_agent_name="support"}')).toBe(1);
  expect(
    valueOf(
      text,
      'drover_run_ended_total{gen_ai_agent_name="support",drover_status="completed",drover_stop_reason="answered"}',
    ),
  ).toBe(1);
  expect(valueOf(text, 'drover_cost_total{gen_ai_agent_name="support",gen_ai_request_model="scripted"}')).toBe(1);
  expect(valueOf(text, 'drover_step_overhead_count{drover_step_kind="model"}')).toBe(2);
  expect(valueOf(text, 'drover_runs{drover_status="completed"}')).toBe(1);
  expect(valueOf(text, 'drover_queue_oldest_age{drover_queue="model"}')).toBe(0);
  expect(valueOf(text, 'drover_queue_workers{drover_queue="tools"}')).toBe(1);
  expect(valueOf(text, 'drover_breaker_open{gen_ai_tool_name="look"}')).toBe(0);
  expect(text).not.toContain(run.id);
  expect(promtool(["check", "metrics"], text)).toEqual({ ok: true, output: "" });
});

test("every metric that is served is in the table, with labels that the table gives it", async () => {
  const world = makeWorld();
  const port = await freePort();
  const drover = open(world, { metrics: { port } });
  await drover.work();
  await (await drover.start(agent, "go")).result({ timeoutMs: 15_000 });
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const table = new Map(Object.values<MetricSpec>(metrics).map((metric) => [prometheusName(metric), metric]));
  for (const line of text.split("\n").filter((each) => each !== "" && !each.startsWith("#"))) {
    const name = /^[a-z0-9_]+/.exec(line)?.[0] ?? "";
    if (name === "target_info") continue;
    const metric = table.get(name) ?? table.get(name.replace(/_(bucket|sum|count)$/, ""));
    expect([name, metric?.name]).toEqual([name, expect.any(String)]);
    const labels = [...line.matchAll(/[{,]([a-z0-9_]+)="/g)].map(([, label]) => label);
    const allowed = [...(metric?.labels ?? []).map(prometheusLabel), "le"];
    expect(labels.filter((label) => !allowed.includes(label ?? ""))).toEqual([]);
  }
});

test("of two workers one tells of the fleet, and the other takes over when it has stopped and its turn is over", async () => {
  const world = makeWorld();
  const views: unknown[] = [];
  const telemetryOf = (name: string) => {
    const reads: (() => Promise<unknown>)[] = [];
    return { name, reads };
  };
  const [first, second] = [telemetryOf("first"), telemetryOf("second")];
  for (const each of [first, second]) {
    const { createNoTelemetry } = await import("../../src/telemetry/no-telemetry.ts");
    const telemetry = {
      ...createNoTelemetry(),
      observeFleet(read: () => Promise<unknown>) {
        each.reads.push(read);
        return () => void each.reads.splice(0);
      },
    };
    await open(world, { telemetry }).work();
  }
  for (let time = 0; time < 2; time += 1) {
    for (const { reads } of [first, second]) views.push(await reads[0]?.());
  }
  expect(views.map((view) => view !== undefined)).toEqual([true, false, true, false]);
});

test("the server answers /metrics with its requests by pattern, and counts who watches", async () => {
  const world = makeWorld();
  await open(world).work();
  const server = createDroverServer({ ...world, http: { keyless: true } });
  onTestFinished(() => server.close());
  const { url } = await server.listen();
  const started = await fetch(`${url}/runs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ agent: "support", input: "go" }),
  });
  const { runId } = (await started.json()) as { runId: string };
  await (await fetch(`${url}/runs/${runId}/events`)).text();
  await fetch(`${url}/runs/${runId}`);
  await fetch(`${url}/nothing/here?token=canary`);
  const text = await (await fetch(`${url}/metrics`)).text();
  const count = (route: string, status: number, method = "GET"): number | undefined =>
    valueOf(
      text,
      `http_server_request_duration_count{http_request_method="${method}"${route === "" ? "" : `,http_route="${route}"`},http_response_status_code="${status}",url_scheme="http"}`,
    );
  expect(count("/runs", Number(started.status), "POST")).toBe(1);
  expect(count("/runs/:runId", 200)).toBe(1);
  expect(count("/runs/:runId/events", 200)).toBe(1);
  expect(count("", 404)).toBe(1);
  expect(valueOf(text, "drover_http_watchers")).toBe(0);
  expect(text).not.toContain(runId);
  expect(text).not.toContain("canary");
  expect(promtool(["check", "metrics"], text)).toEqual({ ok: true, output: "" });
});

test("beside a server in its process a worker is counted too, whoever was first", async () => {
  const world = makeWorld();
  const drover = open(world);
  await drover.work();
  const server = createDroverServer({ ...world, http: { keyless: true } });
  onTestFinished(() => server.close());
  await (await drover.start(agent, "go")).result({ timeoutMs: 15_000 });
  const { url } = await server.listen();
  const text = await (await fetch(`${url}/metrics`)).text();
  expect(valueOf(text, 'drover_run_started_total{gen_ai_agent_name="support"}')).toBe(1);
});
