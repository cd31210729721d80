// Catches: a cancelled run that goes on spending money, in a process that was not told or was told at a bad moment.
import { describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { problemsOf } from "../support/transcript.ts";
import { countJobs, jobsAre, makeWorld, readFeed, textSeen } from "../support/world.ts";

const limitMs = 100;

const noJobs = { active: 0, delayed: 0, waiting: 0 };

describe.each([
  ["as they come", false],
  ["with every step redelivered", true],
])("cancelling from another process, steps %s", (_title, redeliver) => {
  test("[D5] ends the model's HTTP call within 100 ms, and counts what it cost", async () => {
    const world = await makeWorld({ redeliver, respond: () => ({ deltas: ["some ", "words"], end: "hold" }) });
    await world.work();
    const tookMs: number[] = [];
    for (let index = 0; index < 5; index += 1) {
      const run = await world.drover.start("e2e", "go", { runId: `cancel-${index}` });
      await textSeen(run, "words");
      const cancelledAt = Date.now();
      expect(await run.cancel({ by: "ann", reason: "enough" })).toBe(true);
      tookMs.push((await world.server.closedBy(index)) - cancelledAt);
      expect(await run.result()).toMatchObject({ status: "cancelled", stopReason: "cancelled" });
      const usage = await eventually(async () => {
        const status = await run.status();
        return status.usage.outputTokens > 0 ? status.usage : undefined;
      });
      expect(usage).toMatchObject({ estimated: true });
      expect(usage.inputTokens).toBeGreaterThan(0);
      expect((await readFeed(world, run.id)).filter(({ type }) => type === "usage_reported").length).toBe(1);
      expect(await run.cancel()).toBe(false);
    }
    process.stdout.write(`cancel: model call closed after ${tookMs.join(", ")} ms\n`);
    expect(Math.max(...tookMs)).toBeLessThan(limitMs);
    expect(world.server.requests.length).toBe(5);
    await jobsAre(world, noJobs);
  });

  test("[D5] [G3] aborts a tool's signal within 100 ms", async () => {
    const calls = ["look", "post"].map((name) => ({ name, arguments: { note: "a", hold: true } }));
    const world = await makeWorld({ redeliver, respond: () => ({ toolCalls: calls }) });
    await world.work();
    const run = await world.drover.start("e2e", "go", { runId: "cancel-tool" });
    const visits = await Promise.all([world.gate.next({ what: "look" }), world.gate.next({ what: "post" })]);
    const cancelledAt = Date.now();
    await run.cancel({ by: "ann", reason: "enough" });
    const closedAt = await Promise.all(visits.map((visit) => visit.closed));
    expect(Math.max(...closedAt) - cancelledAt).toBeLessThan(limitMs);
    const transcript = await run.transcript();
    expect(problemsOf(transcript)).toEqual([]);
    const results = transcript.filter((message) => message.role === "tool");
    expect(results.map(({ outcome }) => outcome)).toEqual(["cancelled", "unknown"]);
    expect(world.server.requests.length).toBe(1);
  });

  test("[G5] a waiting run leaves no job behind", async () => {
    const world = await makeWorld({
      redeliver,
      approvalExpiresMs: 3_600_000,
      respond: () => ({ toolCalls: [{ name: "offer", arguments: { note: "a" } }] }),
    });
    await world.work();
    const run = await world.drover.start("e2e", "go", { runId: "cancel-waiting" });
    await eventually(async () => ((await run.status()).status === "waiting" ? true : undefined));
    // What waits is the one delayed job that will tell that nobody approved in time.
    await jobsAre(world, { ...noJobs, delayed: 1 });
    expect(await run.cancel({ by: "ann" })).toBe(true);
    expect(await countJobs(world)).toEqual(noJobs);
    expect(world.ledger.entries()).toEqual([]);
  });
});

test("[D5] is heard by a step that was just reading the run", async () => {
  const world = await makeWorld({ holdLoads: true, respond: () => new Promise<never>(() => {}) });
  await world.work();
  const run = await world.drover.start("e2e", "go", { runId: "cancel-load" });
  // The step has read the run as it was before, and goes on only after the announcement was made.
  const load = await world.gate.next({ what: "loaded" });
  expect(await run.cancel({ by: "ann" })).toBe(true);
  load.release();
  await jobsAre(world, noJobs);
  expect(await run.result()).toMatchObject({ status: "cancelled", turns: 0 });
  for (const { index, at } of world.server.requests)
    expect((await world.server.closedBy(index)) - at).toBeLessThan(limitMs);
  expect((await readFeed(world, run.id)).map(({ type }) => type)).not.toContain("model_answered");
});
