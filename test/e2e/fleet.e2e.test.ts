// Catches: an operator who sees a worker that is dead, or does not see what waits for one.
import { hostname } from "node:os";
import { expect, test } from "vitest";
import type { FleetView } from "../../src/ports.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeAnswer, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, resultsOf, type World } from "../support/world.ts";

/** Holds its one tool until the test lets it go on. */
function holdOnce({ body }: FakeRequest): FakeAnswer {
  return turnOf(body) > 1 ? "Done." : { toolCalls: [{ name: "look", arguments: { note: "x", hold: true } }] };
}

function fleetWhere(world: World, fits: (view: FleetView) => boolean, timeoutMs?: number): Promise<FleetView> {
  return eventually(async () => {
    const view = await world.drover.fleet();
    return fits(view) ? view : undefined;
  }, timeoutMs);
}

const queue = (view: FleetView, name: string) => view.queues.find((one) => one.name === name);

test("the fleet shows two workers, drops a killed one within 15 s, and tells how long steps wait for one", async () => {
  const world = await makeWorld({ respond: holdOnce, concurrency: 3 });
  const [first, second] = await Promise.all([world.work(), world.work()]);
  const both = await fleetWhere(world, ({ workers }) => workers.length === 2);
  expect(both.workers.map(({ pid }) => pid).toSorted()).toEqual([first.pid, second.pid].toSorted());
  for (const worker of both.workers) {
    expect(worker).toMatchObject({ host: hostname(), concurrency: 3 * worker.queues.length, agents: ["e2e"] });
    expect(worker.queues).toEqual(expect.arrayContaining(["runs", "model", "tools"]));
  }
  expect(both.queues.filter(({ workers }) => workers === 2).map(({ name }) => name)).toEqual(
    expect.arrayContaining(["runs", "model", "tools"]),
  );

  const killedAt = first.kill9();
  const left = await fleetWhere(world, ({ workers }) => workers.length === 1, 20_000);
  expect(Date.now() - killedAt).toBeLessThan(17_000);
  expect(left.workers[0]?.pid).toBe(second.pid);
  second.terminate();
  await fleetWhere(world, ({ workers }) => workers.length === 0, 5_000);

  // Nobody works: what is started waits, and its age grows.
  const runs = await Promise.all(
    ["a", "b"].map((id) => world.drover.start("e2e", `run-${id} x`, { runId: `run-${id}` })),
  );
  const waiting = await fleetWhere(world, (view) => (queue(view, "model")?.oldestAgeMs ?? 0) >= 1_000);
  expect(queue(waiting, "model")).toMatchObject({ waiting: 2, active: 0, workers: 0 });
  expect(waiting.owing).toMatchObject({ count: 2 });
  expect(waiting.counts.queued).toBe(2);

  await world.work();
  await fleetWhere(
    world,
    (view) => queue(view, "model")?.active === 2 && queue(view, "model")?.oldestAgeMs === undefined,
  );
  for (const visit of [await world.gate.next(), await world.gate.next()]) visit.release("x");
  await resultsOf(runs, 20_000);
});
