// Catches: a "stop everything" that lets steps begin, that a restart undoes, or after which work does not come back.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, inject, onTestFinished, test } from "vitest";
import { z } from "zod";
import { defineAgent } from "../../src/define-agent.ts";
import { createDrover } from "../../src/drover.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeAnswer, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { deletePrefix, startTestRedis, testPrefix } from "../support/redis.ts";
import { makeWorld, resultsOf, runIdOf, type World } from "../support/world.ts";
import { startFleet } from "./support/fleet.ts";
import { judge } from "./support/judge.ts";
import { isLong, seeded } from "./support/seed.ts";

const turnCount = 3;
const workerCount = isLong ? 4 : 2;
let isRefusing = true;

/** Two runs fail at their first turn until it is said otherwise. */
function respond(request: FakeRequest): FakeAnswer {
  const turn = turnOf(request.body);
  if (isRefusing && runIdOf(request).startsWith("failing-")) return { status: 401, body: {} };
  if (turn === turnCount) return { text: "finished", delayMs: 50 };
  return { toolCalls: [{ name: "put", arguments: { note: `a${turn}`, takeMs: 100 } }], delayMs: 50 };
}

/** What began outside Redis, and when: model calls and tools. */
const begun = (world: World): number[] => [
  ...world.server.requests.map(({ at }) => at),
  ...world.ledger.entries().map(({ at }) => at),
];

/**
 * Resolves when what was in hand at the pause has ended: no job is locked. One whose worker is gone stays among the active
 * ones until somebody takes jobs again.
 */
async function idle({ redis, keys }: World): Promise<void> {
  await eventually(async () => {
    const locks: string[] = [];
    for await (const page of redis.scanStream({ match: `${keys.queuePrefix}:*:lock`, count: 1_000 })) {
      locks.push(...(page as string[]));
    }
    return locks.length === 0 || undefined;
  }, 40_000);
}

const total = async ({ drover }: World): Promise<number> =>
  Object.values(await drover.count()).reduce((sum, count) => sum + count, 0);

test("[Q32] a paused fleet begins nothing through kills, starts, retries and a restart of Redis, and then finishes all", async () => {
  const random = seeded();
  isRefusing = true;
  const server = await startTestRedis({ own: true });
  onTestFinished(() => server.stop());
  const world = await makeWorld({ respond, server, lockMs: 1_000 });
  const { drover } = world;
  const fleet = await startFleet(world, workerCount);
  const early = Array.from({ length: 30 }, (_, index) => (index < 2 ? `failing-${index}` : `early-${index}`));
  const start = (runId: string) => drover.start("e2e", `${runId} go`, { runId });
  const runs = await Promise.all(early.map(start));
  for (const run of runs.slice(0, 2))
    expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "failed" });

  expect(await drover.pauseAll({ by: "ann", reason: "an incident" })).toMatchObject({ applied: true, taking: 0 });
  await idle(world);
  const pausedAt = Date.now();
  isRefusing = false;
  for (let place = 0; place < workerCount / 2; place += 1) void fleet.kill(place);
  const late = Array.from({ length: 10 }, (_, index) => `late-${index}`);
  for (const runId of late.slice(0, 5)) runs.push(await start(runId));
  const plain = world.plainQueue("runs");
  for (const runId of late.slice(5)) {
    await plain.add("start", { agent: "e2e", input: `${runId} go` }, { jobId: runId });
    runs.push(drover.get(runId));
  }
  for (const run of runs.slice(0, 2)) await run.retry({ by: "ann" });
  await server.restart();
  await eventually(() => drover.fleet().catch(() => undefined));
  await eventually(async () => {
    const { workers = [] } = (await drover.fleet().catch(() => undefined)) ?? {};
    return (workers.length >= workerCount && workers.every(({ paused }) => paused)) || undefined;
  }, 40_000);
  await sleep(random.between(500, isLong ? 30_000 : 2_000));
  await idle(world);
  const view = await drover.fleet();
  expect(view.paused).toMatchObject({ by: "ann", reason: "an incident" });
  const waiting = (await total(world)) + (await plain.getJobCountByTypes("wait", "prioritized"));
  expect(waiting).toBe(40);
  const resumedAt = Date.now();
  expect(begun(world).filter((at) => at > pausedAt && at <= resumedAt)).toEqual([]);

  expect(await drover.resumeAll()).toBe(true);
  for (const { id } of runs)
    await eventually(() =>
      drover
        .get(id)
        .status()
        .catch(() => undefined),
    );
  const results = await resultsOf(runs, 60_000);
  expect(results.map(({ status, output }) => `${status} ${output}`)).toEqual(runs.map(() => "completed finished"));
  expect(await total(world)).toBe(40);
  expect((await drover.fleet()).paused).toBeUndefined();
  await judge(world, { seed: random.seed });
});

test("[Q32] twenty pauses of the fleet and as many of one run end with everything done", async () => {
  const { seed } = seeded();
  isRefusing = false;
  const world = await makeWorld({ respond });
  const { drover } = world;
  await startFleet(world, 2);
  const ids = Array.from({ length: 10 }, (_, index) => `cycled-${index}`);
  const runs = await Promise.all(ids.map((runId) => drover.start("e2e", `${runId} go`, { runId })));
  const [one] = runs;
  for (let cycle = 0; cycle < 20; cycle += 1) {
    await drover.pauseAll({ by: "ann", reason: `cycle ${cycle}` });
    await one?.pause({ by: "ann" }).catch(() => {}); // it may have ended
    await idle(world);
    const pausedAt = Date.now();
    await sleep(20);
    const resumedAt = Date.now();
    expect(begun(world).filter((at) => at > pausedAt && at <= resumedAt)).toEqual([]);
    await drover.resumeAll();
    await one?.resume().catch(() => {});
  }
  const results = await resultsOf(runs, 60_000);
  expect(results.map(({ status, output }) => `${status} ${output}`)).toEqual(runs.map(() => "completed finished"));
  await judge(world, { seed });
});

test("[Q32] one worker with a long step in hand is paused and resumed twenty times: nothing begins, and nothing stays", async () => {
  const redis = inject("redisUrl");
  const prefix = testPrefix();
  const release = Promise.withResolvers<string>();
  const began = Promise.withResolvers<void>();
  const stay = defineTool({
    name: "stay",
    description: "Stays.",
    parameters: z.object({}),
    effect: "read",
    execute: () => {
      began.resolve();
      return release.promise;
    },
  });
  const long = defineAgent({
    name: "long",
    instructions: "Stay.",
    model: scriptedModel([{ toolCalls: [{ name: "stay" }] }, "left"]),
    tools: [stay],
  });
  const short = defineAgent({ name: "short", instructions: "Be brief.", model: scriptedModel(["brief"]) });
  const drover = createDrover({ redis, prefix, agents: [long, short], logger: createSilentLogger() });
  onTestFinished(async () => {
    await drover.close();
    await deletePrefix(redis, prefix);
  });
  const worker = await drover.work();
  const staying = await drover.start(long, "go");
  await began.promise;
  for (let cycle = 0; cycle < 20; cycle += 1) {
    await worker.pause();
    const run = await drover.start(short, `go ${cycle}`);
    await sleep(20);
    expect(await run.status()).toMatchObject({ status: "queued", turns: 0 });
    expect(worker.stats().running).toBe(1);
    await worker.resume();
    expect(await run.result({ timeoutMs: 15_000 })).toMatchObject({ output: "brief" });
  }
  release.resolve("stayed");
  expect(await staying.result({ timeoutMs: 15_000 })).toMatchObject({ output: "left" });
});
