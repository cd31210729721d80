// Catches: a worker that is up, answers, and takes nothing, while work waits and nobody is told.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import { eventually } from "../support/eventually.ts";
import { startLossyRelay } from "../support/lossy-relay.ts";
import { freePort } from "../support/redis-server.ts";
import { startCliWorker, type WorkerProcess } from "../support/worker-process.ts";
import { makeWorld, resultsOf, type World } from "../support/world.ts";
import { judge } from "./support/judge.ts";
import { isLong, seeded } from "./support/seed.ts";

const runCount = 10;
const stuckAfterMs = isLong ? 10_000 : 2_000;

type Probe = { status: number; body: { status: string; reason?: string } };
type Supervised = { worker: WorkerProcess; probe(path: string): Promise<Probe> };

/** `drover worker` as an orchestrator starts it, with the port that it asks. */
async function supervise(world: World, redisUrl = world.options.redisUrl): Promise<Supervised> {
  const port = await freePort();
  const env = {
    DROVER_METRICS_PORT: String(port),
    DROVER_STUCK_AFTER_MS: String(stuckAfterMs),
    DROVER_CONCURRENCY: "2",
  };
  const worker = await startCliWorker({ ...world.options, redisUrl, env });
  return {
    worker,
    async probe(path) {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`);
      return { status: answer.status, body: (await answer.json()) as Probe["body"] };
    },
  };
}

async function startRuns(world: World): Promise<RunHandle[]> {
  const ids = Array.from({ length: runCount }, (_, index) => `waiting-${index}`);
  return Promise.all(ids.map((runId) => world.drover.start("e2e", `${runId} go`, { runId })));
}

async function expectStuck({ probe }: Supervised): Promise<void> {
  const live = await eventually(async () => {
    const now = await probe("/healthz");
    return now.status === 503 ? now : undefined;
  }, stuckAfterMs + 20_000);
  expect(live.body.status).toBe("stuck");
  expect(live.body.reason).toMatch(
    /Steps wait in "model", the oldest for \d+ s, and this worker has begun none for \d+ s/,
  );
  expect((await probe("/readyz")).status).toBe(503);
}

test("[Q14] a worker whose every slot is wedged says so, and once it is started again all runs complete", async () => {
  const { seed } = seeded();
  const never = new Promise<never>(() => {});
  const slots = 2;
  const world = await makeWorld({ respond: ({ index }) => (index < slots ? never : "done") });
  const wedged = await supervise(world);
  expect(await wedged.probe("/healthz")).toEqual({ status: 200, body: { status: "ok" } });
  expect(await wedged.probe("/readyz")).toEqual({ status: 200, body: { status: "ok" } });
  const runs = await startRuns(world);
  await world.server.received(slots - 1);
  await expectStuck(wedged);
  wedged.worker.kill9(); // as a supervisor does whose grace period is over
  const { probe } = await supervise(world);
  await resultsOf(runs, 30_000);
  await sleep(stuckAfterMs + 500);
  // It has begun nothing for as long, but nothing waits.
  expect((await probe("/healthz")).status).toBe(200);
  await judge(world, { seed });
});

test("[Q14] a worker whose blocking reads are never answered works on, or says that it does not", async () => {
  const { seed } = seeded();
  const world = await makeWorld({ respond: () => "done" });
  const relay = await startLossyRelay(world.options.redisUrl);
  onTestFinished(() => relay.close());
  relay.silenceAfter("bzpopmin");
  const deaf = await supervise(world, relay.url);
  const runs = await startRuns(world);
  const first = Promise.race([
    expectStuck(deaf).then(() => "stuck"),
    resultsOf(runs, stuckAfterMs + 30_000).then(() => "worked"),
  ]);
  if ((await first) === "stuck") {
    deaf.worker.kill9();
    await supervise(world);
  }
  await resultsOf(runs, 30_000);
  await judge(world, { seed });
});
