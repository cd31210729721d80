// Catches: runs that are acknowledged and gone, workers that do not get over a Redis which forgot everything, and nobody
// being told that nothing is kept.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { startTestRedis, type TestRedis } from "../support/redis.ts";
import { makeWorld, resultsOf, runIdOf, type World } from "../support/world.ts";
import { tellFigure } from "./support/figure.ts";
import { judge } from "./support/judge.ts";
import { isLong, seeded } from "./support/seed.ts";

const runCount = isLong ? 300 : 60;
const turnCount = 3;

function respond(request: FakeRequest): FakeReply {
  const turn = turnOf(request.body);
  const text = `${turn} of ${runIdOf(request)}`;
  if (turn === turnCount) return { text, delayMs: 20 };
  return { text, delayMs: 20, toolCalls: [{ name: "look", arguments: { note: `${turn}`, takeMs: 20 } }] };
}

async function ownRedis(...args: string[]): Promise<TestRedis> {
  const server = await startTestRedis({ own: true, args });
  onTestFinished(() => server.stop());
  return server;
}

type Acknowledged = { runId: string; at: number };

/** Starts runs one after the other until Redis is gone; resolves with those that were acknowledged, and when. */
async function startUntilGone(world: World): Promise<Acknowledged[]> {
  const acknowledged: Acknowledged[] = [];
  for (let index = 0; index < runCount; index += 1) {
    const runId = `kept-${index}`;
    try {
      await world.drover.start("e2e", `${runId} go`, { runId });
    } catch {
      break;
    }
    acknowledged.push({ runId, at: performance.now() });
  }
  return acknowledged;
}

/** The runs that there are after the restart, each of which must end. */
async function found(world: World, acknowledged: Acknowledged[]): Promise<string[]> {
  await eventually(() => world.drover.list({ limit: 1 }).catch(() => undefined));
  const exist = await Promise.all(
    acknowledged.map(({ runId }) =>
      world.drover
        .get(runId)
        .status()
        .then(
          () => true,
          (error: { code?: unknown }) => {
            expect(error.code).toBe("not_found");
            return false;
          },
        ),
    ),
  );
  return acknowledged.filter((_, index) => exist[index]).map(({ runId }) => runId);
}

/** Workers serve new runs, also under an id that was lost, without having been started again. */
async function expectServing(world: World, ids: string[]): Promise<void> {
  const runs = await Promise.all(
    ids.map((runId) =>
      eventually(() => world.drover.start("e2e", `${runId} go`, { runId }).catch(() => undefined), 20_000),
    ),
  );
  const results = await resultsOf(runs, 60_000);
  expect(results.every(({ status }) => status === "completed")).toBe(true);
  for (const worker of world.workers) expect(worker.exited()).toBe(false);
}

describe("a Redis that is killed at any moment while runs are started", () => {
  test.each([
    ["always", 0],
    ["everysec", 2_000], // it waits so long for a disk that is slow
  ])("[Q19] with appendfsync %s keeps what it acknowledged, but for the last %i ms", async (fsync, windowMs) => {
    const random = seeded();
    const server = await ownRedis("--appendfsync", fsync);
    const world = await makeWorld({ respond, server });
    await world.work();
    const starting = startUntilGone(world);
    await eventually(async () => (await world.drover.list({ limit: 1 })).runs[0]);
    await sleep(random.between(0, isLong ? 2_000 : 400));
    const killedAt = performance.now();
    await server.kill9();
    const acknowledged = await starting;
    await server.restart();
    const there = await found(world, acknowledged);
    const lost = acknowledged.filter(({ runId }) => !there.includes(runId));
    expect(lost.filter(({ at }) => at < killedAt - windowMs)).toEqual([]);
    if (windowMs === 0) expect(there.length).toBe(acknowledged.length);
    await resultsOf(
      there.map((runId) => world.drover.get(runId)),
      60_000,
    );
    // With "everysec" all may be lost that was started in the last second.
    await expectServing(world, ["after-0"]);
    expect(world.workers.some((worker) => worker.output().includes("Persistence is off"))).toBe(false);
    // A start whose reply was lost may have left a record: the sweeper finds what that owes.
    await judge(world, { seed: random.seed, withinMs: 30_000 });
    tellFigure(`Q19 appendfsync ${fsync}`, `${acknowledged.length} runs acknowledged, ${lost.length} of them lost`);
  });
});

describe("a Redis that forgot everything", () => {
  test("[Q19] with persistence off says so at start, and workers go on with what comes after", async () => {
    const server = await ownRedis("--appendonly", "no");
    const world = await makeWorld({ respond, server });
    const worker = await world.work();
    expect(worker.output()).toContain("Persistence is off: nothing is saved to disk, so a restart loses runs.");
    const acknowledged = await startUntilGone(world);
    await server.kill9();
    await server.restart();
    expect(await found(world, acknowledged)).toEqual([]);
    await expectServing(world, ["kept-0", "kept-1", "after-0"]);
    await judge(world);
  });

  test("[Q19] by FLUSHALL in mid-run: lost runs are not found and stay so, and workers go on with what comes after", async () => {
    const server = await ownRedis();
    const world = await makeWorld({ respond, server });
    await Promise.all([world.work(), world.work()]);
    const starting = startUntilGone(world);
    await world.server.received(20);
    const flushedAt = performance.now();
    await world.redis.flushall();
    const acknowledged = await starting;
    const before = acknowledged.filter(({ at }) => at < flushedAt);
    const after = acknowledged.filter(({ at }) => at > flushedAt + 1_000).map(({ runId }) => runId);
    await resultsOf(
      after.map((runId) => world.drover.get(runId)),
      60_000,
    );
    expect(before.length).toBeGreaterThan(3);
    // Nothing that was in a worker's memory brings one of them back.
    expect(await found(world, before.slice(0, 3))).toEqual([]);
    await expectServing(world, [before[0]?.runId ?? "", "after-1", "after-2"]);
    await judge(world);
  });
});
