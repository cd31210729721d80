// Catches: a run that is frozen for ever because its worker died between the record of a step and the queueing of the next.
import { expect, test } from "vitest";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import type { E2eOptions } from "../support/e2e-options.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, resultsOf, runIdOf, type World } from "../support/world.ts";
import { tellFigure } from "./support/figure.ts";
import { startFleet } from "./support/fleet.ts";
import { judge } from "./support/judge.ts";
import { isLong, type Random, seeded } from "./support/seed.ts";

type Point = NonNullable<E2eOptions["killAt"]>["point"];

const turnCount = 4;
const tools = ["post", "put", "look"];
/**
 * Every commit of the run but its creation: of turns 1 to 4, of three calls that end, and of the start of the one that may not
 * run twice.
 */
const commitCount = 9;

function respond(request: FakeRequest): FakeReply {
  const turn = turnOf(request.body);
  const name = tools[turn - 1];
  if (name === undefined) return { text: `done with ${runIdOf(request)}` };
  return { text: `turn ${turn}`, toolCalls: [{ name, arguments: { note: `${name}-${turn}` } }] };
}

/** As a program that knows nothing of Drover starts a run: the record is made by a worker, too. */
async function produce(world: World, runId: string): Promise<void> {
  await world.plainQueue("runs").add("start", { agent: "e2e", input: `${runId} go` }, { jobId: runId });
}

/** The run once there is a record of it. */
function recorded(world: World, runId: string): Promise<RunHandle> {
  const run = world.drover.get(runId);
  return eventually(async () => ((await run.status().catch(() => undefined)) ? run : undefined), 30_000);
}

/** Commits at which this chain's workers die, in an order of the seed's. */
function chosen(random: Random): number[] {
  const all = Array.from({ length: commitCount }, (_, index) => index + 1);
  if (isLong) return all;
  return [random.between(1, 3), random.between(4, 6), random.between(7, commitCount)];
}

/** One worker after the other, each of which dies in a run of its own and ends that of the one before. */
async function expectChain(world: World, point: Point, commits: readonly number[]): Promise<void> {
  const killAt = (index: number): Partial<E2eOptions> => {
    const commit = commits[index];
    return commit === undefined ? {} : { killAt: { point, commit, runId: `${point}-${commit}` } };
  };
  let worker = await world.work(killAt(0));
  for (const [index, commit] of commits.entries()) {
    const runId = `${point}-${commit}`;
    await produce(world, runId);
    expect((await worker.exit).signal).toBe("SIGKILL");
    const answered =
      (
        await world.drover
          .get(runId)
          .status()
          .catch(() => undefined)
      )?.turns ?? 0;
    const before = world.server.requests.length;
    worker = await world.work(killAt(index + 1));
    const result = await (await recorded(world, runId)).result({ timeoutMs: 30_000 });
    expect(result).toMatchObject({ status: "completed", turns: turnCount });
    const since = world.server.requests.slice(before).filter((request) => runIdOf(request) === runId);
    // What was answered and committed is asked no second time, all else once.
    const turns = Array.from({ length: turnCount - answered }, (_, turn) => `${runId}: turn ${answered + turn + 1}`);
    expect(since.map(({ body }) => `${runId}: turn ${turnOf(body)}`)).toEqual(turns);
  }
}

test("[Q01] a worker that dies before or after any commit, or once the next step is queued, holds up nothing", async () => {
  const random = seeded();
  const points: Point[] = ["before_commit", "after_commit", "after_queue"];
  await Promise.all(
    points.map(async (point) => {
      const world = await makeWorld({ respond, toolTimeoutMs: 1_000 });
      await expectChain(world, point, chosen(random));
      await judge(world, { seed: random.seed });
    }),
  );
});

test("[Q01] runs outlive kills at random moments", async () => {
  const random = seeded();
  const runCount = isLong ? 200 : 20;
  const leastKills = isLong ? 20 : 3;
  const world = await makeWorld({
    respond: (request) => ({ ...respond(request), delayMs: 30 }),
    toolTimeoutMs: 1_000,
  });
  const fleet = await startFleet(world, 3);
  const done = new AbortController();
  const killing = fleet.killAtRandom(random, { everyMs: [300, 1_200], until: done.signal });
  // Wave after wave: how long one takes, and so how many kills it sees, is chance.
  let completed = 0;
  for (let wave = 0; fleet.deaths.length < leastKills; wave += 1) {
    const ids = Array.from({ length: runCount }, (_, index) => `random-${wave}-${index}`);
    await Promise.all(ids.map((runId) => produce(world, runId)));
    const runs = await Promise.all(ids.map((runId) => recorded(world, runId)));
    await resultsOf(runs, isLong ? 300_000 : 60_000);
    completed += runCount;
  }
  done.abort();
  await killing;
  await judge(world, { seed: random.seed });
  tellFigure("Q01", `${fleet.deaths.length} kills at random moments, ${completed} of ${completed} runs completed`);
});
