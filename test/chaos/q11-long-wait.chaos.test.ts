// Catches: a wait for a person that outlasts locks and is therefore delivered again and again, or continued twice.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { startTestRedis } from "../support/redis.ts";
import { jobsAre, makeWorld } from "../support/world.ts";
import { startFleet } from "./support/fleet.ts";
import { judge } from "./support/judge.ts";
import { isLong, seeded } from "./support/seed.ts";

const [lockMs, locks] = isLong ? [3_000, 20] : [1_000, 6];
const restarts = isLong ? 5 : 2;
const waitMs = (locks * lockMs) / restarts;

const respond = ({ body }: FakeRequest): FakeReply =>
  turnOf(body) > 1 ? { text: "settled" } : { text: "may I", toolCalls: [{ name: "pay", arguments: { note: "a" } }] };

test("[Q11] [G5] a run that waits for a person holds no job through restarts of workers and of Redis, and goes on once", async () => {
  const { seed } = seeded();
  const server = await startTestRedis({ own: true });
  try {
    const world = await makeWorld({ respond, server, lockMs });
    const fleet = await startFleet(world, 2);
    const run = await world.drover.start("e2e", "waiting go", { runId: "waiting" });
    const callId = await eventually(async () => {
      const { openCalls } = await run.status();
      return openCalls.find(({ state }) => state === "approval")?.callId;
    });
    for (let restart = 0; restart < restarts; restart += 1) {
      await sleep(waitMs);
      await fleet.kill(restart % 2);
    }
    await server.restart();
    await jobsAre(world, { active: 0, delayed: 0, waiting: 0 });
    expect(world.server.requests.length).toBe(1);
    expect(world.ledger.entries()).toEqual([]);
    await eventually(() => run.status().catch(() => undefined));
    await run.approve(callId, { by: "ann" });
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "settled" });
    await expect(run.approve(callId, { by: "bob" })).rejects.toMatchObject({ code: "not_allowed" });
    expect(world.ledger.entries().length).toBe(1);
    expect(world.server.requests.length).toBe(2);
    await judge(world, { seed, usage: "exact" });
  } finally {
    await server.stop();
  }
});
