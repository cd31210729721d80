// Catches: calls that never answer and hold all slots of a worker, so that a fleet idles while work waits.
import { spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { type Agent, defineAgent } from "../../src/define-agent.ts";
import { createDrover, type Drover } from "../../src/drover.ts";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import { openai } from "../../src/openai/openai.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { scriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { runCommand } from "../../src/tools/stock/run-command.ts";
import { eventually } from "../support/eventually.ts";
import type { FakeAnswer, FakeRequest } from "../support/fake-openai.ts";
import { makeWorld, resultsOf, runIdOf, type World } from "../support/world.ts";
import { isLong } from "./support/seed.ts";

/** As many as there are slots. */
const slots = 10;
const wholeMs = 3_000;
const idleMs = 1_500;
const everyMs = isLong ? 1_000 : 400;

async function workWith(agent: Agent, { options }: World): Promise<Drover> {
  const { redisUrl: redis, prefix } = options;
  const drover = createDrover({ redis, prefix, agents: [agent], logger: createSilentLogger() });
  onTestFinished(() => drover.close());
  await drover.work({ concurrency: slots, graceMs: 500 });
  return drover;
}

const start = (drover: Drover, kind: string): Promise<RunHandle>[] =>
  Array.from({ length: slots }, (_, index) =>
    drover.start("hung", `${kind}-${index} go`, { runId: `${kind}-${index}` }),
  );

/** The first attempt of a run hangs, in the way that its id says; the second answers. */
function hangOnce(): (request: FakeRequest) => Promise<FakeAnswer> {
  const asked = new Set<string>();
  return async (request) => {
    const runId = runIdOf(request);
    const isFirst = !asked.has(runId);
    asked.add(runId);
    if (!isFirst || runId.startsWith("normal")) return `${runId} is done`;
    if (runId.startsWith("silent")) return new Promise<never>(() => {});
    // It says something, and nothing more; or a letter now and then, for ever: only the whole call's time ends that.
    if (runId.startsWith("stopped")) return { deltas: ["a", "b"], end: "hold" };
    return { deltas: Array.from({ length: 500 }, () => "a"), chunkDelayMs: everyMs };
  };
}

describe("model calls that hang in every slot", () => {
  test.each([
    ["silent", idleMs],
    ["stopped", idleMs],
    ["trickling", wholeMs],
  ])("[Q29] %s ones are cut at their deadline, tried again, and normal runs finish in time", async (kind, cutMs) => {
    const world = await makeWorld({ respond: hangOnce() });
    const { baseURL } = world.options;
    const model = openai({
      model: "fake",
      baseURL,
      apiKey: "k",
      timeoutMs: wholeMs,
      idleTimeoutMs: idleMs,
      retry: { attempts: 3, delayMs: 100 },
    });
    const drover = await workWith(defineAgent({ name: "hung", instructions: "Answer.", model, tools: [] }), world);
    const hung = await Promise.all(start(drover, kind));
    await world.server.received(slots - 1);
    const startedAt = performance.now();
    const normal = await Promise.all(start(drover, "normal"));
    const results = await resultsOf([...normal, ...hung], 30_000);
    expect(results.every(({ status }) => status === "completed")).toBe(true);
    // Every slot hung: they waited for one deadline, and no longer.
    expect(performance.now() - startedAt).toBeLessThan(cutMs + 8_000);
    expect(world.server.requests.length).toBe(3 * slots);
    const cut = await Promise.all(Array.from({ length: slots }, (_, index) => world.server.closedBy(index)));
    for (const [index, at] of cut.entries()) {
      const lastedMs = at - (world.server.requests[index]?.at ?? 0);
      // A request is noted when it has been read, which on a busy machine is later than it was sent.
      expect(lastedMs).toBeGreaterThan(cutMs - 1_000);
      expect(lastedMs).toBeLessThan(cutMs + 4_000);
    }
  });
});

/** A program that lives on when it is told to end, with a child that does so too. */
const stubborn = `trap "" TERM; echo $$; (trap "" TERM; exec sleep 300) & wait; sleep 300`;

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe("a tool that hangs in every slot", () => {
  test("[Q29] frees its slot at its time although its child process ignores SIGTERM", async () => {
    const world = await makeWorld({ respond: () => "unused" });
    const pids: number[] = [];
    onTestFinished(() => {
      for (const pid of pids) if (isAlive(pid)) process.kill(pid, "SIGKILL");
    });
    const hang = defineTool({
      name: "hang",
      description: 'Hangs. Example: {"note":"a"}',
      parameters: z.object({ note: z.string() }),
      effect: "read",
      timeoutMs: 1_000,
      // A tool of a careless author: it passes the signal on, which sends SIGTERM, and waits for the exit.
      execute: (_args, { signal }) =>
        new Promise((resolve) => {
          const child = spawn("sh", ["-c", 'trap "" TERM; exec sleep 300'], { signal, stdio: "ignore" });
          if (child.pid) pids.push(child.pid);
          child.on("error", () => {});
          child.on("exit", resolve);
        }),
    });
    const model = scriptedModel([{ toolCalls: [{ name: "hang", arguments: { note: "a" } }] }, "done"]);
    const drover = await workWith(defineAgent({ name: "hung", instructions: "Try.", model, tools: [hang] }), world);
    const startedAt = performance.now();
    const runs = await Promise.all(start(drover, "tool"));
    const results = await resultsOf(runs, 30_000);
    expect(performance.now() - startedAt).toBeLessThan(15_000);
    expect(results.every(({ status }) => status === "completed")).toBe(true);
    const transcript = await runs[0]?.transcript();
    expect(transcript?.find(({ role }) => role === "tool")).toMatchObject({ outcome: "failed" });
  });

  test("[Q29] the stock tool for commands kills what does not end, with its children", async () => {
    const world = await makeWorld({ respond: () => "unused" });
    const tool = runCommand({ commands: ["sh"], cwd: tmpdir(), timeoutMs: 1_000 });
    const call = { name: tool.name, arguments: { command: "sh", args: ["-c", stubborn] } };
    const model = scriptedModel([{ toolCalls: [call] }, "done"]);
    const drover = await workWith(defineAgent({ name: "hung", instructions: "Try.", model, tools: [tool] }), world);
    const run = await drover.start("hung", "go", { runId: "command-1" });
    expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed" });
    const told = JSON.stringify(await run.transcript());
    const pid = Number(/\b(\d{3,})\\\\?n/.exec(told)?.[1]);
    await eventually(() => (isAlive(pid) ? undefined : true));
  });
});
