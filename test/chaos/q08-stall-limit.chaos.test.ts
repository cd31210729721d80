// Catches: a run that fails because its worker was killed more often than some limit of the queue's, or that fails silently.
import { expect, test } from "vitest";
import { type FakeAnswer, turnOf } from "../support/fake-openai.ts";
import { makeWorld } from "../support/world.ts";
import { judge } from "./support/judge.ts";
import { isLong, seeded } from "./support/seed.ts";

/** More than BullMQ's limit of stalls (1), and more than the three after which a step runs alone in a child process. */
const deaths = isLong ? 5 : 4;

test("[Q08] [G8] a run whose worker is killed again and again in one model call completes once a worker stays up", async () => {
  const { seed } = seeded();
  const never = new Promise<never>(() => {});
  let asked = 0;
  const world = await makeWorld({
    respond: ({ body }): FakeAnswer | Promise<FakeAnswer> => {
      if (turnOf(body) !== 2)
        return turnOf(body) === 1 ? { toolCalls: [{ name: "put", arguments: { note: "a" } }] } : "x";
      asked += 1;
      return asked <= deaths ? never : "outlived";
    },
  });
  let worker = await world.work();
  const run = await world.drover.start("e2e", "stalled go", { runId: "stalled" });
  for (let death = 1; death <= deaths; death += 1) {
    await world.server.received(death); // the first request was the first turn's
    expect((await run.status()).status).toBe("running");
    worker.kill9();
    await worker.exit;
    worker = await world.work();
  }
  expect(await run.result({ timeoutMs: 60_000 })).toMatchObject({ status: "completed", output: "outlived", turns: 2 });
  expect(asked).toBe(deaths + 1);
  await judge(world, { seed });
});
