// Catches: a run whose record says that it goes on while its queue has nothing for it, and a sweeper that disturbs what works.
import { expect, test } from "vitest";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, resultsOf, runIdOf, type World } from "../support/world.ts";
import { startFleet } from "./support/fleet.ts";
import { judge } from "./support/judge.ts";
import { seeded } from "./support/seed.ts";

/** As the documentation promises: what is owed for 5 s and lies in no queue is found by the next sweep. */
const sweepMs = 5_000;
const repairLine = "a run owed steps that were not queued";

/** The first answer asks for a payment, which waits for a person; a run named `busy` is held in a tool. */
function respond(request: FakeRequest): FakeReply {
  if (turnOf(request.body) > 1) return { text: "done" };
  const isBusy = runIdOf(request).startsWith("busy");
  return { text: "first", toolCalls: [{ name: isBusy ? "look" : "pay", arguments: { note: "a", hold: isBusy } }] };
}

async function approve(run: RunHandle): Promise<string> {
  const callId = await eventually(async () => {
    const { openCalls } = await run.status();
    return openCalls.find(({ state }) => state === "approval")?.callId;
  });
  await run.approve(callId, { by: "ann" });
  return callId;
}

/** The job of the approved call's step, the only one that the run has. */
async function jobOf(world: World, run: RunHandle): Promise<string> {
  return eventually(async () => {
    const ids = await world.redis.zrange(`${world.keys.queuePrefix}:model:prioritized`, "0", "-1");
    return ids.find((id) => id.endsWith(`-${run.id}`));
  });
}

/** As if it had lain there for long: what a frozen fleet finds. */
async function age(world: World, runs: readonly RunHandle[]): Promise<void> {
  for (const { id } of runs) await world.redis.zadd(world.keys.owing, "XX", Date.now() - 60_000, id);
}

test("[Q02] a lost job, and one that lies among the failed, is queued again within a sweep, once, by three sweepers", async () => {
  const { seed } = seeded();
  const world = await makeWorld({ respond });
  const fleet = await startFleet(world, 3);
  const start = (runId: string, delayMs?: number): Promise<RunHandle> =>
    world.drover.start("e2e", `${runId} go`, { runId, ...(delayMs === undefined ? {} : { delayMs }) });
  const deleted = await start("deleted");
  const failed = await start("failed");
  const busy = await start("busy");
  const later = await start("later", 3_600_000);
  const visit = await world.gate.next({ runId: "busy" });
  await eventually(async () => ((await failed.status()).status === "waiting" ? true : undefined));
  await eventually(async () => ((await deleted.status()).status === "waiting" ? true : undefined));
  for (const worker of fleet.places) worker?.stop();
  await Promise.all([approve(deleted), approve(failed)]);

  const queue = `${world.keys.queuePrefix}:model`;
  const [lostJob, failedJob] = [await jobOf(world, deleted), await jobOf(world, failed)];
  await world.redis.del(`${queue}:${lostJob}`);
  await world.redis.zrem(`${queue}:prioritized`, lostJob, failedJob);
  await world.redis.zadd(`${queue}:failed`, Date.now(), failedJob);
  await age(world, [deleted, failed, busy, later]);

  const resumedAt = Date.now();
  for (const worker of fleet.places) worker?.resume();
  await resultsOf([deleted, failed], 30_000);
  const payments = world.ledger.entries().filter(({ tool }) => tool === "pay");
  expect(payments.map(({ runId }) => runId).sort()).toEqual(["deleted", "failed"]);
  expect(Math.max(...payments.map(({ at }) => at)) - resumedAt).toBeLessThan(sweepMs + 2_000);
  // What is at work and what is not due yet is not touched, by any of several sweeps.
  await age(world, [busy, later]);
  await eventually(async () => ((await world.redis.pttl(world.keys.lease("sweep"))) > 0 ? true : undefined));
  const lines = world.workers.flatMap((worker) => worker.logLines().filter((line) => line.includes(repairLine)));
  expect(lines.map((line) => (JSON.parse(line) as { runId: string }).runId).sort()).toEqual(["deleted", "failed"]);
  visit.release();
  await resultsOf([busy], 20_000);
  expect(world.ledger.entries().filter(({ runId }) => runId === "busy").length).toBe(1);
  expect(world.server.requests.length).toBe(6);
  await later.cancel({ by: "ann", reason: "the test is over" });
  await judge(world, { seed, statuses: ["completed", "cancelled"] });
});
