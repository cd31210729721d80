// Catches: an enqueue that says it worked, while the job is in no list and every try to repair it says so again.
import { expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, resultsOf, runIdOf, type World } from "../support/world.ts";
import { judge } from "./support/judge.ts";
import { putRemnant } from "./support/remnants.ts";
import { seeded } from "./support/seed.ts";

/** I1, as the case asks for it. */
const limitMs = 30_000;
const lastTurn = 4;

/** Each answer before the last calls a tool; what has to happen in its turn happens before it. */
const respond =
  (mischief: (request: FakeRequest) => Promise<void>) =>
  async (request: FakeRequest): Promise<FakeReply> => {
    const turn = turnOf(request.body);
    await mischief(request);
    if (turn === lastTurn) return { text: "end" };
    return { text: `turn ${turn}`, toolCalls: [{ name: "put", arguments: { note: `a${turn}` } }] };
  };

/** The step that the next commit will make owed, as data in no list. */
async function putInLimbo(world: World, runId: string): Promise<void> {
  const revision = Number(await world.redis.hget(world.keys.run(runId).head, "rev"));
  await putRemnant(world, { queue: "model", runId, owedAt: revision + 1, index: 1 });
}

test("[Q04] a step whose job is in no list is found and queued again, also after an enqueue that failed in its middle", async () => {
  const { seed } = seeded();
  const mischief = async (request: FakeRequest): Promise<void> => {
    if (turnOf(request.body) !== 2) return;
    if (runIdOf(request) === "limbo") await putInLimbo(world, "limbo");
    // The script that adds the next step writes its data, and then meets a key of another type.
    if (runIdOf(request) === "spoilt") await world.redis.set(`${queue}:prioritized`, "no sorted set");
  };
  const world: World = await makeWorld({ respond: respond(mischief) });
  const queue = `${world.keys.queuePrefix}:model`;
  await world.work();
  const startedAt = Date.now();
  const runs = await Promise.all(
    ["limbo", "spoilt"].map((runId) => world.drover.start("e2e", `${runId} go`, { runId })),
  );
  await eventually(async () => {
    const [jobs] = await world.redis.scan("0", "MATCH", `${queue}:*-1-spoilt`, "COUNT", 10_000);
    return jobs.length > 0 && (await world.redis.type(`${queue}:prioritized`)) === "string" ? true : undefined;
  });
  await world.redis.del(`${queue}:prioritized`);
  const results = await resultsOf(runs, limitMs);
  expect(results.map(({ turns }) => turns)).toEqual([lastTurn, lastTurn]);
  expect(Date.now() - startedAt).toBeLessThan(limitMs);
  await judge(world, { seed });
});
