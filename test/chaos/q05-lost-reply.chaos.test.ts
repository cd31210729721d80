// Catches: a worker that did commit and is told that another won, and counts that are charged twice because a reply was lost.
import { expect, onTestFinished, test } from "vitest";
import { createDrover } from "../../src/drover.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { type LossyRelay, startLossyRelay } from "../support/lossy-relay.ts";
import { makeWorld, runIdOf, type World } from "../support/world.ts";
import { tellFigure } from "./support/figure.ts";
import { judge } from "./support/judge.ts";
import { isLong, type Random, seeded } from "./support/seed.ts";

const repetitions = isLong ? 50 : 6;
const turnCount = 3;

type Loss = { runId: string; turn: number; text: string; alone: boolean };

type Scene = { world: World; relay: LossyRelay; lose(loss: Loss): void };

/** A worker whose way to Redis loses the reply it is told to, from the answer of a certain turn of a run on. */
async function makeScene(): Promise<Scene> {
  let loss: Loss | undefined;
  const respond = (request: FakeRequest): FakeReply => {
    const turn = turnOf(request.body);
    if (loss && loss.runId === runIdOf(request) && loss.turn === turn) relay.loseReplyTo(loss.text, loss);
    if (turn === turnCount) return { text: "end" };
    const names = ["put", "post"].map((name) => ({ name, arguments: { note: `${name} ${turn}` } }));
    return { text: `turn ${turn}`, toolCalls: names };
  };
  // Limits that nothing here reaches, so that the fleet's counters are written as well.
  const limits = { tools: { put: { rate: { max: 1_000, perMs: 1_000 }, concurrency: 50 } } };
  const world = await makeWorld({ respond, limits });
  const relay = await startLossyRelay(world.options.redisUrl);
  onTestFinished(() => relay.close());
  await world.work({ redisUrl: relay.url });
  return {
    world,
    relay,
    lose(next) {
      loss = next;
    },
  };
}

/** One run at a time, each with one reply lost; then all of them are judged: every step was made once, to the token. */
async function expectNoDoubles(
  what: string,
  random: Random,
  textOf: (runId: string) => string,
  alone: boolean,
): Promise<void> {
  const { world, relay, lose } = await makeScene();
  for (let index = 0; index < repetitions; index += 1) {
    const runId = `lossy-${index}`;
    lose({ runId, turn: random.between(1, turnCount - 1), text: textOf(runId), alone });
    const run = await world.drover.start("e2e", `${runId} go`, { runId });
    expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed", turns: turnCount });
    expect(relay.lost()).toBe(index + 1);
  }
  expect(world.server.requests.length).toBe(repetitions * turnCount);
  expect(world.ledger.entries().length).toBe(repetitions * 2 * (turnCount - 1));
  const { gates } = await world.drover.fleet();
  expect(gates.map(({ inside, waiting }) => inside + waiting)).toEqual(gates.map(() => 0));
  await judge(world, { seed: random.seed, usage: "exact" });
  tellFigure("Q05", `${relay.lost()} replies lost to ${what}, each step made once`);
}

test("[Q05] [G1] a commit whose reply was lost counts as made, and is made once", async () => {
  // The channel that only a commit names.
  await expectNoDoubles("a commit", seeded(), (runId) => `:r:run:${runId}:ended`, false);
});

test("[Q05] [G2] a step whose enqueueing was not answered is queued once", async () => {
  // The data of a job, which only its adding holds.
  await expectNoDoubles("the adding of a job", seeded(), (runId) => `{"runId":"${runId}","owedAt":`, true);
});

test("[Q05] [G1] a step whose end was not answered, and with it the next one that was given out, is made once", async () => {
  // Part of what BullMQ tells of a job's end alone.
  await expectNoDoubles("the end of a job", seeded(), () => "keepJobs", true);
});

test("[Q05] a write of the fleet's counters whose reply was lost charges nobody twice", async () => {
  await expectNoDoubles("a write of the counters", seeded(), () => ":r:gate:", true);
});

test("[Q05] a start without an id whose reply was lost makes one run", async () => {
  const { seed } = seeded();
  const world = await makeWorld({ respond: () => "done" });
  const relay = await startLossyRelay(world.options.redisUrl);
  onTestFinished(() => relay.close());
  const drover = createDrover({ redis: relay.url, prefix: world.prefix, logger: createSilentLogger() });
  onTestFinished(() => drover.close());
  await world.work();
  for (let index = 0; index < repetitions; index += 1) {
    relay.loseReplyTo(index % 2 === 0 ? `go ${index}` : `"owedAt":`);
    const run = await drover.start("e2e", `go ${index}`);
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed" });
    expect(relay.lost()).toBe(index + 1);
  }
  const { runs } = await world.drover.list({ limit: 100 });
  expect(runs.length).toBe(repetitions);
  expect(world.server.requests.length).toBe(repetitions);
  await judge(world, { seed });
});
