// Catches: urgent work that waits behind a backlog, and low work that waits for ever because the backlog never ends.
import { expect, test } from "vitest";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, resultsOf, runIdOf, type World } from "../support/world.ts";
import { tellFigure } from "./support/figure.ts";
import { judge } from "./support/judge.ts";
import { isLong } from "./support/seed.ts";

const backlog = isLong ? 200 : 60;
const slots = 5;
const stepMs = 100;
const turnsOf = (runId: string): number => (runId.startsWith("low") ? 2 : 10);

function respond(request: FakeRequest): FakeReply {
  const turn = turnOf(request.body);
  const runId = runIdOf(request);
  const text = `${turn} of ${runId}`;
  if (turn === turnsOf(runId)) return { text, delayMs: stepMs };
  const toolCalls = [{ name: "look", arguments: { note: `${turn}`, takeMs: stepMs } }];
  return { text, delayMs: stepMs, toolCalls };
}

/** Priorities of the jobs that wait, by queue. */
async function priorities({ redis, keys }: World): Promise<{ classes: number[]; without: number }> {
  const found = { classes: [] as number[], without: 0 };
  for (const queue of ["model", "tools"]) {
    const key = `${keys.queuePrefix}:${queue}`;
    found.without += await redis.llen(`${key}:wait`);
    for (const id of await redis.zrange(`${key}:prioritized`, "0", "-1")) {
      found.classes.push(Number(await redis.hget(`${key}:${id}`, "priority")));
    }
  }
  return found;
}

test("[Q30] urgent work begins within a few step times, low work ends before the backlog doubles, and every job has its class", async () => {
  const world = await makeWorld({ respond, concurrency: slots });
  let started = 0;
  const current = new Set<RunHandle>();
  const startOne = async (): Promise<RunHandle> => {
    started += 1;
    const runId = `backlog-${started}`;
    const run = await world.drover.start("e2e", `${runId} go`, { runId });
    current.add(run);
    return run;
  };
  // As one ends, the next one comes: by itself the backlog never gets shorter.
  let isOver = false;
  const keepUp = async (): Promise<void> => {
    for (;;) {
      const run = await startOne();
      await resultsOf([run], 300_000);
      current.delete(run);
      if (isOver) return;
    }
  };
  const load = Array.from({ length: backlog }, keepUp);
  await world.work();
  await world.server.received(slots * 4);
  const low = await world.drover.start("e2e", "low-1 go", { runId: "low-1", priority: 2_000_000 });
  const lowStartedAt = started;
  const urgentAt = Date.now();
  const urgent = await world.drover.start("e2e", "urgent-1 go", { runId: "urgent-1", priority: 1 });
  const asked = (runId: string) => world.server.requests.find((request) => runIdOf(request) === runId)?.at;
  const { classes, without } = await priorities(world);
  expect(without).toBe(0);
  expect(Math.min(...classes)).toBeGreaterThan(0);
  await resultsOf([urgent], 120_000);
  // One step of each slot may be at work before it, and the machine is shared.
  const urgentMs = (asked("urgent-1") ?? 0) - urgentAt;
  expect(urgentMs).toBeLessThan(10 * stepMs + 1_000);
  await resultsOf([low], 200_000);
  isOver = true;
  const passed = started - lowStartedAt;
  expect(passed).toBeLessThan(backlog);
  await Promise.all([...current].map((run) => run.cancel({ by: "test" })));
  await Promise.all(load);
  await judge(world, { statuses: ["completed", "cancelled"] });
  tellFigure(
    "Q30",
    `backlog of ${backlog}: urgent work began after ${urgentMs} ms, ${passed} runs began before low work ended`,
  );
});
