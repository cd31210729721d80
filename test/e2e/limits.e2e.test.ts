// Limits that hold over three worker processes, judged by what tools really did. The first test lasts about 30 s: it
// watches a rate for 20.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import { eventually } from "../support/eventually.ts";
import type { FakeAnswer, FakeRequest } from "../support/fake-openai.ts";
import type { LedgerEntry } from "../support/ledger.ts";
import { makeWorld, readFeed, resultsOf, runIdOf, type World, type WorldOptions } from "../support/world.ts";

/** Calls the tool that the input names, once, then answers. The input: `<run id> <tool> <ms it takes>`. */
function callOnce({ body }: FakeRequest): FakeAnswer {
  if (body.messages.some(({ role }) => role === "tool")) return "Done.";
  const [, name = "", takeMs] = String(body.messages.find(({ role }) => role === "user")?.content).split(" ");
  return { toolCalls: [{ name, arguments: { note: "x", ...(takeMs ? { takeMs: Number(takeMs) } : {}) } }] };
}

async function makeFleet(options: Partial<WorldOptions>, workers = 3): Promise<World & { pids: (() => number)[] }> {
  const world = await makeWorld({ respond: callOnce, ...options });
  const fleet = await Promise.all(Array.from({ length: workers }, () => world.work()));
  return { ...world, pids: fleet.map((worker) => () => worker.kill9()) };
}

function startAll(world: World, count: number, tool: string, prefix = tool): Promise<RunHandle[]> {
  return Promise.all(
    Array.from({ length: count }, (_, index) => {
      const runId = `${prefix.split(" ")[0]}-${index}`;
      return world.drover.start("e2e", `${runId} ${tool}`, { runId });
    }),
  );
}

const ofTool = (world: World, tool: string): LedgerEntry[] =>
  world.ledger.entries().filter((entry) => entry.tool === tool);

async function expectCompleted(runs: RunHandle[], timeoutMs: number): Promise<void> {
  const results = await resultsOf(runs, timeoutMs);
  expect(results.filter(({ status }) => status !== "completed")).toEqual([]);
}

test("a tool limited to 10 calls a second gets 10, give or take one, in each of 20 seconds; no run is lost", async () => {
  const world = await makeFleet({ limits: { tools: { look: { rate: { max: 10, perMs: 1_000 } } } } });
  const runs = await startAll(world, 270, "look");
  const count = async (status: "queued" | "running"): Promise<number> =>
    (await world.drover.list({ status, limit: 10 })).runs.length;
  // The workers have other things to do until all are parked.
  await eventually(async () => (await count("queued")) + (await count("running")) < 4 || undefined, 20_000);
  const first = Date.now();
  await expectCompleted(runs, 60_000);
  const times = ofTool(world, "look").map(({ at }) => at);
  expect(times).toHaveLength(270);
  const perSecond = Array.from(
    { length: 20 },
    (_, second) => times.filter((at) => Math.floor((at - first) / 1_000) === second).length,
  );
  expect(Math.min(...perSecond), `per second: ${perSecond.join(", ")}`).toBeGreaterThanOrEqual(9);
  expect(Math.max(...perSecond), `per second: ${perSecond.join(", ")}`).toBeLessThanOrEqual(11);
});

test("a concurrency of 3 is never exceeded and kept busy, though a worker is killed on the way", async () => {
  const takeMs = 500;
  const count = 90;
  const world = await makeFleet({ limits: { tools: { stay: { concurrency: 3 } } } });
  const runs = await startAll(world, count, `stay ${takeMs}`);
  await eventually(async () => ofTool(world, "stay").length > count / 3 || undefined, 30_000);
  world.pids[0]?.();
  await expectCompleted(runs, 60_000);

  const entries = world.ledger.entries();
  let most = 0;
  const inside = new Map<string, number>();
  for (const { tool, callId, runId } of entries) {
    // A call of the killed worker is executed again under the same name, in the place it had.
    if (tool === "stay") inside.set(`${runId} ${callId}`, 1);
    else inside.delete(`${runId} ${callId}`);
    most = Math.max(most, inside.size);
  }
  expect(most).toBe(3);
  const lastedMs = (entries.at(-1)?.at ?? 0) - (entries[0]?.at ?? 0);
  const idealMs = (count / 3) * takeMs;
  expect(idealMs / lastedMs, `${lastedMs} ms, ideal ${idealMs} ms`).toBeGreaterThanOrEqual(0.8);
});

test("a breaker opened by one worker stops the others within a second; every run goes on", async () => {
  const world = await makeFleet({});
  const runs: RunHandle[] = [];
  for (let index = 0; index < 60; index += 1) {
    const runId = `fail-${index}`;
    runs.push(await world.drover.start("e2e", `${runId} fail`, { runId }));
    await sleep(50);
  }
  await expectCompleted(runs, 30_000);
  const times = ofTool(world, "fail").map(({ at }) => at);
  const openedAt = times.toSorted((a, b) => a - b)[2] ?? 0;
  expect(times.filter((at) => at > openedAt + 1_000)).toEqual([]);
  const messages = (await runs.at(-1)?.transcript()) ?? [];
  const told = messages.find(({ role }) => role === "tool");
  expect(told?.content).toMatch(/^"fail" is switched off until .* Use "look" instead\.$/);
});

test("the Retry-After of one run parks the others of that model; all complete and no attempt is used up", async () => {
  let refusedAt = 0;
  const world = await makeFleet({
    respond: (request) => {
      if (runIdOf(request) !== "first-0" || refusedAt > 0) return "Done.";
      refusedAt = request.at;
      return { status: 429, headers: { "retry-after": "3" }, body: { error: { message: "slow down" } } };
    },
  });
  const [first] = await startAll(world, 1, "x", "first");
  await eventually(async () => refusedAt > 0 || undefined);
  await sleep(600);
  const others = await startAll(world, 30, "x", "other");
  await expectCompleted(first ? [first, ...others] : [], 30_000);
  const early = world.server.requests.filter(({ at }) => at > refusedAt && at < refusedAt + 2_900);
  expect(early).toEqual([]);
  for (const { id } of others) {
    const feed = await readFeed(world, id);
    expect(feed.filter(({ type }) => type === "model_failed")).toEqual([]);
    expect(feed.find(({ type }) => type === "model_answered")).toMatchObject({ attempt: 1 });
  }
});

test("1,000 parked runs cost no worker slot: a free tool's runs go on as before", async () => {
  const world = await makeFleet(
    { concurrency: 10, limits: { tools: { look: { rate: { max: 1, perMs: 3_600_000 } } } } },
    1,
  );
  const timed = async (prefix: string): Promise<number> => {
    const begunAt = performance.now();
    await expectCompleted(await startAll(world, 100, "put", prefix), 30_000);
    return performance.now() - begunAt;
  };
  await timed("warm");
  const beforeMs = await timed("before");
  const parked = await startAll(world, 1_000, "look");
  const waiting = async (): Promise<true | undefined> =>
    (await world.drover.list({ status: "waiting", limit: 1_000 })).runs.length >= 999 || undefined;
  await eventually(waiting, 60_000);
  const meanwhileMs = await timed("meanwhile");
  expect(meanwhileMs, `${beforeMs} ms before`).toBeLessThan(2 * beforeMs + 500);
  expect(ofTool(world, "look")).toHaveLength(1);
  expect(await parked.at(-1)?.status()).toMatchObject({
    status: "waiting",
    waitingFor: expect.stringContaining('the tool "look" is limited to 1 call in 3600 s'),
  });
});
