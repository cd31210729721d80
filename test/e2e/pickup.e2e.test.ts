// Catches: default settings with which the steps of a dead worker lie around.
import { expect, test } from "vitest";
import { makeWorld, runIdOf } from "../support/world.ts";

const limitMs = 5_000;

test.each([
  ["as they come", 3, false],
  ["with every step redelivered", 1, true],
])("[D1] [G8] a step is begun again within 5 s of its worker's death, steps %s", async (_title, deaths, redeliver) => {
  const never = new Promise<never>(() => {});
  const world = await makeWorld({
    redeliver,
    respond: (request) => (asked(runIdOf(request)) === 1 ? never : "done"), // the first call is where its worker dies
  });
  const asked = (runId: string): number => world.server.requests.filter((other) => runIdOf(other) === runId).length;
  const tookMs: number[] = [];
  let holder = await world.work();
  for (let death = 0; death < deaths; death += 1) {
    const runId = `pickup-${death}`;
    const run = await world.drover.start("e2e", `${runId} go`, { runId });
    await world.server.received(2 * death);
    const next = await world.work(); // stands by, so that only the noticing is measured
    const killedAt = holder.kill9();
    tookMs.push((await world.server.received(2 * death + 1)).at - killedAt);
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "done" });
    expect((await run.transcript()).length).toBe(2);
    holder = next;
  }
  process.stdout.write(`pickup: ${tookMs.join(", ")} ms after the kill\n`);
  expect(Math.max(...tookMs)).toBeLessThan(limitMs);
});
