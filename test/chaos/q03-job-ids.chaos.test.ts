// Catches: a step that is never queued because an old job has its id, and one that is done again because none has it any more.
import { expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FakeAnswer, turnOf } from "../support/fake-openai.ts";
import { jobsAre, makeWorld, type World } from "../support/world.ts";
import { judge } from "./support/judge.ts";
import { putRemnant } from "./support/remnants.ts";
import { seeded } from "./support/seed.ts";

test("[Q03] a run whose third answer failed for good goes on when it is retried, though an old job has its step's id", async () => {
  const { seed } = seeded();
  let broken = true;
  const world = await makeWorld({
    respond: ({ body }): FakeAnswer => {
      const turn = turnOf(body);
      if (turn === 3 && broken) return { status: 401, body: { error: { message: "no such key" } } };
      if (turn === 4) return "mended";
      return { text: `turn ${turn}`, toolCalls: [{ name: "put", arguments: { note: `a${turn}` } }] };
    },
  });
  await world.work();
  const run = await world.drover.start("e2e", "retried go", { runId: "retried" });
  expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "failed", turns: 2 });
  broken = false;
  // What BullMQ would keep of a failed job: it blocks the id that the retried step will have.
  const revision = Number(await world.redis.hget(world.keys.run(run.id).head, "rev"));
  await putRemnant(world, { queue: "model", runId: run.id, owedAt: revision + 1, index: 0, state: "failed" });
  await run.retry({ by: "ann" });
  expect((await run.status()).status).toBe("running");
  const result = await run.result({ timeoutMs: 30_000 });
  expect(result).toMatchObject({ status: "completed", output: "mended", turns: 4 });
  // The failed request of the third turn is the only one that was made in vain.
  expect(world.server.requests.map(({ body }) => turnOf(body))).toEqual([1, 2, 3, 3, 4]);
  await judge(world, { seed });
});

const noJobs = { active: 0, delayed: 0, waiting: 0 };

test("[Q03] [G1] [G2] steps of the past that are queued by hand do nothing and end", async () => {
  const { seed } = seeded();
  const held = Promise.withResolvers<void>();
  const world = await makeWorld({
    respond: async ({ body }) => {
      const turn = turnOf(body);
      if (turn === 5) await held.promise;
      const toolCalls = ["look", "post"].map((name) => ({ name, arguments: { note: `${name} ${turn}` } }));
      return turn === 6 ? { text: "end" } : { text: `turn ${turn}`, toolCalls };
    },
  });
  await world.work();
  const run = await world.drover.start("e2e", "replayed go", { runId: "replayed" });
  await world.server.received(4); // turn 5 is being answered
  const requests = world.server.requests.length;
  const executions = world.ledger.entries().length;
  await replayAll(world, run.id);
  await jobsAre(world, { ...noJobs, active: 1 });
  expect(world.server.requests.length).toBe(requests);
  expect(world.ledger.entries().length).toBe(executions);
  held.resolve();
  expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "end", turns: 6 });
  expect(world.ledger.entries().length).toBe(10);
  await judge(world, { seed, usage: "exact" });
});

/** Queues every step there can have been, but for the one at work. */
async function replayAll(world: World, runId: string): Promise<void> {
  const working = (await world.plainQueue("model").getActive()).map(({ id }) => id);
  const revision = Number(await world.redis.hget(world.keys.run(runId).head, "rev"));
  const kinds = [
    ["model", "model", 0],
    ["model", "tool", 1],
    ["model", "tool", 2],
  ] as const;
  for (let owedAt = 1; owedAt <= revision; owedAt += 1) {
    for (const [queue, name, index] of kinds) {
      const jobId = `${owedAt}-${index}-${runId}`;
      if (!working.includes(jobId)) await world.plainQueue(queue).add(name, { runId, owedAt, index }, { jobId });
    }
  }
}

test("[Q03] a start sent again, while its run works and after it has ended, gives that run and does nothing twice", async () => {
  const { seed } = seeded();
  const held = Promise.withResolvers<void>();
  const world = await makeWorld({
    respond: async ({ body }) => {
      if (turnOf(body) === 2) return "said once";
      await held.promise;
      return { toolCalls: [{ name: "post", arguments: { note: "a" } }] };
    },
  });
  await world.work();
  const again = (): Promise<unknown> => world.drover.start("e2e", "again go", { runId: "again" });
  const produce = (): Promise<unknown> =>
    world.plainQueue("runs").add("start", { agent: "e2e", input: "again go" }, { jobId: "again" });
  const run = await world.drover.start("e2e", "again go", { runId: "again" });
  await world.server.received(0);
  await Promise.all([again(), again(), produce()]);
  held.resolve();
  expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "said once" });
  const { createdAt } = await run.status();
  await Promise.all([again(), produce()]);
  await eventually(async () => ((await world.plainQueue("runs").count()) === 0 ? true : undefined));
  await jobsAre(world, noJobs);
  expect(await run.status()).toMatchObject({ status: "completed", createdAt });
  expect(world.server.requests.length).toBe(2);
  await expect(world.drover.start("e2e", "something else", { runId: "again" })).rejects.toMatchObject({
    code: "conflict",
  });
  await judge(world, { seed, usage: "exact" });
});
