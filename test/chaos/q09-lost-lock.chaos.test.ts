// Catches: code that goes on spending after its step was given to another, because nobody told it.
import { expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, type World } from "../support/world.ts";
import { judge } from "./support/judge.ts";
import { isLong, seeded } from "./support/seed.ts";

/** A lock of 3 s is renewed at least every 1.5 s. */
const renewalMs = 1_500;
const takeMs = isLong ? 60_000 : 6_000;

const calling =
  (name: string) =>
  ({ body }: FakeRequest): FakeReply =>
    turnOf(body) > 1 ? { text: "done" } : { toolCalls: [{ name, arguments: { note: "a", takeMs } }] };

/** Deletes the lock of the only job at work, and says when. */
async function deleteLock({ redis, keys }: World): Promise<number> {
  const base = `${keys.queuePrefix}:model`;
  const jobId = await eventually(async () => (await redis.lindex(`${base}:active`, 0)) ?? undefined);
  expect(await redis.del(`${base}:${jobId}:lock`)).toBe(1);
  return Date.now();
}

const tickMs = 200;
/** How often the tool noted that it goes on. */
const ticks = (world: World): number => world.ledger.entries().length;

test("[Q09] a tool that may be repeated is aborted within a renewal once its lock is gone, and the new owner commits", async () => {
  const { seed } = seeded();
  const world = await makeWorld({ respond: calling("tick") });
  await Promise.all([world.work(), world.work()]);
  const run = await world.drover.start("e2e", "ticking go", { runId: "ticking" });
  await eventually(() => (ticks(world) >= 3 ? true : undefined));
  await deleteLock(world);
  const before = ticks(world);
  expect(await run.result({ timeoutMs: takeMs + 30_000 })).toMatchObject({ status: "completed", output: "done" });
  // Whoever took it then has ticked to the end, and before it the first one for as long as it took to tell it.
  const told = ticks(world) - takeMs / tickMs - before;
  expect(told).toBeLessThanOrEqual((renewalMs + 1_000) / tickMs);
  await judge(world, { seed });
});

test("[Q09] a model call is aborted within a renewal once its lock is gone", async () => {
  const { seed } = seeded();
  const world = await makeWorld({
    respond: ({ index }: FakeRequest) => (index === 0 ? { deltas: ["never"], end: "hold" } : "again"),
  });
  await world.work();
  const run = await world.drover.start("e2e", "asking go", { runId: "asking" });
  await world.server.received(0);
  await world.work();
  const lostAt = await deleteLock(world);
  expect((await world.server.closedBy(0)) - lostAt).toBeLessThan(renewalMs + 1_000);
  expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed", output: "again" });
  await judge(world, { seed });
});

test("[Q09] [G4] a begun tool that may not be repeated goes on, since nobody else may do its work, and its result counts", async () => {
  const { seed } = seeded();
  const world = await makeWorld({ respond: calling("tock"), toolTimeoutMs: 120_000 });
  await Promise.all([world.work(), world.work()]);
  const run = await world.drover.start("e2e", "once go", { runId: "once" });
  await eventually(() => (ticks(world) >= 3 ? true : undefined));
  await deleteLock(world);
  expect(await run.result({ timeoutMs: takeMs + 30_000 })).toMatchObject({ status: "completed", output: "done" });
  expect(ticks(world)).toBe(takeMs / tickMs);
  expect(new Set(world.ledger.entries().map(({ pid }) => pid)).size).toBe(1);
  const results = (await run.transcript()).flatMap((message) => (message.role === "tool" ? [message.outcome] : []));
  expect(results).toEqual(["ok"]);
  await judge(world, { seed });
});
