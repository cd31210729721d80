// Catches: one run that takes every worker down with it, again and again, and all other runs with them.
import { expect, test } from "vitest";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { problemsOf } from "../support/transcript.ts";
import type { WorkerProcess } from "../support/worker-process.ts";
import { makeWorld, readFeed, resultsOf, runIdOf } from "../support/world.ts";

const healthyTurns = 6;

function respond(request: FakeRequest): FakeReply {
  const turn = turnOf(request.body);
  if (runIdOf(request) === "poison") {
    return turn === 1 ? { toolCalls: [{ name: "die", arguments: { note: "a" } }] } : { text: "cured" };
  }
  if (turn === healthyTurns) return { text: "well" };
  return {
    delayMs: 100,
    toolCalls: [
      { name: "look", arguments: { note: `a${turn}` } },
      { name: "put", arguments: { note: `b${turn}` } },
    ],
  };
}

test("[G8] a tool that kills its process fails its own run alone, as poison, and the workers stay up", async () => {
  const world = await makeWorld({ respond });
  const deaths: WorkerProcess[] = [];
  const alive = new Set<WorkerProcess>();
  const starting = new Set<Promise<void>>();
  /** Keeps one worker up, as a supervisor does. */
  async function keepUp(): Promise<void> {
    const worker = await world.work();
    alive.add(worker);
    void worker.exit.then(() => {
      alive.delete(worker);
      deaths.push(worker);
      const next = keepUp();
      starting.add(next);
      void next.finally(() => starting.delete(next));
    });
  }
  await Promise.all([keepUp(), keepUp()]);
  const ids = ["poison", ...Array.from({ length: 10 }, (_, index) => `healthy-${index}`)];
  const runs = await Promise.all(ids.map((runId) => world.drover.start("e2e", `${runId} go`, { runId })));
  const [poison, ...healthy] = await resultsOf(runs, 60_000);
  expect(healthy.map(({ status, output }) => [status, output])).toEqual(healthy.map(() => ["completed", "well"]));
  expect(poison).toMatchObject({ status: "failed", stopReason: "poison", error: { code: "poison" } });
  expect(poison?.error?.message).toContain("SIGKILL");
  // Three workers, then the child alone.
  await Promise.all(starting);
  const executions = world.ledger.entries().filter(({ tool }) => tool === "die");
  expect(deaths.length).toBe(3);
  expect(executions.length).toBe(4);
  expect(deaths.map(({ pid }) => pid)).toEqual(executions.slice(0, 3).map(({ pid }) => pid));
  expect(deaths.map(({ pid }) => pid)).not.toContain(executions[3]?.pid);
  expect(alive.size).toBe(2);
  for (const run of runs) expect(problemsOf(await run.transcript())).toEqual([]);
  expect((await readFeed(world, "poison")).map(({ type }) => type)).toContain("step_crashed");
  // The survivors work on.
  const after = await world.drover.start("e2e", "healthy-after go", { runId: "healthy-after" });
  expect(await after.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed" });
  expect(alive.size).toBe(2);
});
