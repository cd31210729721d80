// Catches: one step whose tool takes all memory, walks through the whole fleet and takes the runs of others down with it.
import { expect, test } from "vitest";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, readFeed, resultsOf, runIdOf } from "../support/world.ts";
import { startFleet } from "./support/fleet.ts";
import { judge } from "./support/judge.ts";
import { seeded } from "./support/seed.ts";

const healthyCount = 20;

function respond(request: FakeRequest): FakeReply {
  const isPoison = runIdOf(request) === "poison";
  const turn = turnOf(request.body);
  if (turn === 4) return { text: "well" };
  const name = isPoison ? "hog" : "put";
  return { text: `turn ${turn}`, toolCalls: [{ name, arguments: { note: `a${turn}`, takeMs: 100 } }], delayMs: 100 };
}

test("[Q10] [G8] a step that exhausts the memory of every worker ends its own run, and 20 beside it finish", async () => {
  const { seed } = seeded();
  const world = await makeWorld({ respond, heapMb: 128 });
  const fleet = await startFleet(world, 3);
  const ids = ["poison", ...Array.from({ length: healthyCount }, (_, index) => `healthy-${index}`)];
  const runs = await Promise.all(ids.map((runId) => world.drover.start("e2e", `${runId} go`, { runId })));
  const [poison, ...healthy] = await resultsOf(runs, 90_000);
  expect(healthy.map(({ status, output }) => `${status} ${output}`)).toEqual(healthy.map(() => "completed well"));
  expect(poison).toMatchObject({ status: "failed", stopReason: "poison", error: { code: "poison" } });
  expect(poison?.error?.message).toMatch(/tool of call-1-1/);
  const crashes = (await readFeed(world, "poison")).filter(({ type }) => type === "step_crashed");
  expect(crashes.length).toBe(1);
  // Three workers, and after them a child of one that lives on. One that lost the lock while it still fought for memory, and
  // said so, is not counted as lost; that it then died is one death more.
  const deadOfIt = world.ledger.entries().filter(({ tool }) => tool === "hog");
  expect(fleet.deaths.length).toBeGreaterThanOrEqual(3);
  expect(fleet.deaths.length).toBeLessThanOrEqual(5);
  expect(deadOfIt.length).toBeGreaterThan(fleet.deaths.length);
  await judge(world, {
    seed,
    statuses: ["completed", "failed"],
    isCaused: ({ pid }) => deadOfIt.some((one) => one.pid === pid),
  });
});

test("[Q10] after as many deaths as were configured, here one, the run ends with the reason and the step", async () => {
  const { seed } = seeded();
  const world = await makeWorld({
    respond: () => ({ toolCalls: [{ name: "die", arguments: { note: "a" } }] }),
    isolateAfter: 1,
  });
  const fleet = await startFleet(world, 2);
  const run = await world.drover.start("e2e", "deadly go", { runId: "deadly" });
  const result = await run.result({ timeoutMs: 60_000 });
  expect(result).toMatchObject({ status: "failed", stopReason: "poison", error: { code: "poison" } });
  expect(result.error?.message).toMatch(/tool of call-1-1/);
  // One worker, and after it a child of one that lives on.
  const deadOfIt = world.ledger.entries().filter(({ tool }) => tool === "die");
  expect(fleet.deaths.map(({ signal }) => signal)).toEqual(["SIGKILL"]);
  expect(deadOfIt.length).toBe(2);
  await judge(world, {
    seed,
    statuses: ["failed"],
    isCaused: ({ pid }) => deadOfIt.some((one) => one.pid === pid),
  });
});
