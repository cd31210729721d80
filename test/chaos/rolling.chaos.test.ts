// Catches: a deployment that loses a step, repeats what may not be repeated, or delivers steps again without end.
import { describe, expect, test } from "vitest";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import type { LedgerEntry } from "../support/ledger.ts";
import type { WorkerProcess } from "../support/worker-process.ts";
import { makeWorld, resultsOf, runIdOf, type World } from "../support/world.ts";
import { judge } from "./support/judge.ts";
import { isLong, type Random, seeded } from "./support/seed.ts";

const workerCount = 3;
const runCount = isLong ? 40 : 9;
const turnCount = isLong ? 10 : 3;
const stepMs: [from: number, to: number] = isLong ? [1_000, 2_000] : [450, 900];

/** Slow steps: tools that may be repeated, that may be with care, and that may not. */
function slowSteps(random: Random): (request: FakeRequest) => FakeReply {
  return (request) => {
    const turn = turnOf(request.body);
    const text = `${turn} of ${runIdOf(request)}`;
    if (turn === turnCount) return { text };
    const names = turn % 2 === 1 ? ["look", "put"] : [random.pick(["look", "put", "post"])];
    const takeMs = (): number => random.between(...stepMs);
    return { text, toolCalls: names.map((name) => ({ name, arguments: { note: `${turn}`, takeMs: takeMs() } })) };
  };
}

/** Replaces the workers one after the other, as a deployment does: the new one takes steps before the old one is told. */
async function roll(world: World, old: readonly WorkerProcess[]): Promise<{ pid: number; tookMs: number }[]> {
  const gone: { pid: number; tookMs: number }[] = [];
  for (const worker of old) {
    await world.work();
    const toldAt = worker.terminate();
    const { code, signal, at } = await worker.exit;
    expect([code, signal]).toEqual([0, null]);
    gone.push({ pid: worker.pid, tookMs: at - toldAt });
  }
  return gone;
}

/** Executions of tools that came after another one of the same call, by the worker whose step it had been. */
function redeliveries(world: World): Map<number, LedgerEntry[]> {
  const byKey = Map.groupBy(world.ledger.entries(), ({ key }) => key);
  const again = [...byKey.values()].flatMap((entries) => entries.slice(0, -1));
  return Map.groupBy(again, ({ pid }) => pid);
}

/** Of a model call only its requests tell: those beyond one a turn. */
function modelRedeliveries(world: World): number {
  return world.server.requests.length - runCount * turnCount;
}

/** Replaces a fleet of three while it works on all the runs, which then end. Those that were replaced. */
async function rollBusyFleet(world: World): ReturnType<typeof roll> {
  const old = await Promise.all(Array.from({ length: workerCount }, () => world.work()));
  const ids = Array.from({ length: runCount }, (_, index) => `rolled-${index}`);
  const runs = await Promise.all(ids.map((runId) => world.drover.start("e2e", `${runId} go`, { runId })));
  await world.server.received(runCount);
  const gone = await roll(world, old);
  await resultsOf(runs, 120_000);
  return gone;
}

describe("a rolling restart of a busy fleet of three", () => {
  test("[D11] with a grace period longer than its steps delivers none again and loses none", async () => {
    const random = seeded();
    const world = await makeWorld({ respond: slowSteps(random), graceMs: 10_000 });
    const gone = await rollBusyFleet(world);
    expect([...redeliveries(world).keys()]).toEqual([]);
    expect(modelRedeliveries(world)).toBe(0);
    for (const { tookMs } of gone) expect(tookMs).toBeLessThan(10_000 + (isLong ? 2_000 : 5_000));
    await judge(world, { seed: random.seed, usage: "exact" });
  });

  test("[D11] with a grace period shorter than its steps hands each of them back, once, and ends in time", async () => {
    const random = seeded();
    const graceMs = 300;
    const world = await makeWorld({ respond: slowSteps(random), graceMs, toolTimeoutMs: 5_000 });
    const gone = await rollBusyFleet(world);
    for (const { tookMs } of gone) expect(tookMs).toBeLessThan(graceMs + (isLong ? 2_000 : 5_000));
    // A step that a worker had in hand when it was told to end is delivered at most once more on its account; a worker that
    // was not told to end gives none back.
    const left = new Set(gone.map(({ pid }) => pid));
    for (const [pid, entries] of redeliveries(world)) {
      expect(left).toContain(pid);
      expect(new Set(entries.map(({ key }) => key)).size).toBe(entries.length);
    }
    // Handed back on purpose and not found by an expired lock: no worker is said to be lost.
    for (const worker of world.workers) expect(worker.output()).not.toMatch(/lost its worker too often|runs alone/);
    await judge(world, { seed: random.seed });
  });

  test("[D11] with one step in hand a worker, adds at most one redelivery a worker", async () => {
    const random = seeded();
    const world = await makeWorld({ respond: slowSteps(random), graceMs: 200, concurrency: 1, toolTimeoutMs: 5_000 });
    const old = await Promise.all(Array.from({ length: workerCount }, () => world.work()));
    const ids = Array.from({ length: workerCount + 2 }, (_, index) => `single-${index}`);
    const runs = await Promise.all(ids.map((runId) => world.drover.start("e2e", `${runId} go`, { runId })));
    await world.server.received(workerCount);
    await roll(world, old);
    await resultsOf(runs, 120_000);
    for (const entries of redeliveries(world).values()) expect(entries.length).toBeLessThanOrEqual(1);
    await judge(world, { seed: random.seed });
  });
});
