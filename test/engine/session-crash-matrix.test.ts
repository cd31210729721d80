// Catches: any gap between two port calls in which a dying process leaves a session stuck, lets two of its runs at the
// transcript, loses or doubles an input, or changes their order. Each port call of one story is the place of death once.
import { beforeAll, describe, expect, test } from "vitest";
import type { Message } from "../../src/core/message.ts";
import { isEnded, type Run } from "../../src/core/run.ts";
import { ownParts, sessionTranscript } from "../../src/core/session.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { sweep } from "../../src/engine/sweep.ts";
import type { StepOutcome } from "../../src/ports.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { type CrashPoint, createFaults, type Faults } from "../../src/testing/index.ts";
import { expectWhole, makeTalker, watchSession } from "./session-support.ts";
import { type Bench, makeBench } from "./support.ts";

const session = "chat";
const runIds = ["r1", "r2", "r3"];

type Played = { runs: Run[]; messages: Message[]; entered: string[]; calls: readonly string[]; owing: string[] };

/** Three starts, an input given to the first run between its turns, a retry of the second after it failed. */
async function play(point?: CrashPoint, redeliverEveryStep = false): Promise<Played> {
  const bench = makeBench();
  const problems: string[] = [];
  const watched = watchSession(bench.store, session, (what) => problems.push(what));
  const story = { retried: false, injected: false };
  // Two turns for each run; the second run fails in its first one until it is retried.
  const fails = (runId: string): boolean => runId === "r2" && !story.retried;
  const agent = makeTalker({ fails, answers: 1, effect: "write" });
  const process = (faults: Faults): Engine =>
    bench.process({
      agents: [agent],
      store: faults.wrap("store", watched.store),
      queue: faults.wrap("queue", bench.queue),
      signals: { ...bench.signals, announce: faults.wrap("signals", bench.signals).announce },
    });
  const faults = createFaults(point);
  let engine = process(faults);

  async function afterDeath(): Promise<void> {
    await new Promise(setImmediate);
    if (!faults.dead()) return;
    engine.close();
    engine = process(createFaults());
  }

  /** A command, given again until it is answered. */
  async function command(give: (engine: Engine) => Promise<unknown>): Promise<void> {
    for (let tries = 0; tries < 5; tries += 1) {
      const error = await give(engine).then(
        () => null,
        (thrown: Error) => thrown,
      );
      await afterDeath();
      if (error?.name !== "Crashed") return;
    }
    throw new Error("the command is never answered");
  }

  async function deliver(): Promise<boolean> {
    const taken = bench.queue.take();
    if (!taken) return false;
    const wasDead = faults.dead();
    const outcome: StepOutcome = await engine.runStep(taken.delivery);
    await new Promise(setImmediate);
    if (faults.dead() && !wasDead) {
      await afterDeath();
      bench.queue.redeliver(taken.delivery.step);
    } else if (redeliverEveryStep && outcome.type === "done") {
      taken.end(await engine.runStep({ ...taken.delivery, deliveries: taken.delivery.deliveries + 1 }));
    } else taken.end(outcome);
    return true;
  }

  const say = (runId: string) => (to: Engine) => to.client.start("talker", `in ${runId}`, { runId, session });
  for (const runId of runIds) await command(say(runId));
  for (let deliveries = 0; deliveries < 300; deliveries += 1) {
    if (!story.injected && (await bench.store.load("r1"))?.turns === 1) {
      story.injected = true;
      await command((to) => to.client.start("talker", "in i1", { runId: "i1", session, whenBusy: "inject" }));
    }
    if (await deliver()) continue;
    const runs = await loadAll(bench);
    const owing = await bench.store.owing(Number.POSITIVE_INFINITY, 10);
    if (runs.every(isEnded) && owing.length === 0 && story.retried) break;
    if (runs.every(isEnded) && owing.length === 0) {
      story.retried = true;
      await command((to) => to.client.command("r2", { type: "retry_requested", by: "ann" }));
    } else await goOn(bench);
  }
  expect(problems).toEqual([]);
  const runs = await loadAll(bench);
  const messages = await bench.store.readMessages(sessionTranscript(session), 0, 100);
  const owing = await bench.store.owing(Number.POSITIVE_INFINITY, 10);
  engine.close();
  return { runs, messages, entered: watched.entered, calls: faults.calls, owing };
}

async function loadAll({ store }: Bench): Promise<Run[]> {
  const runs = await Promise.all(runIds.map((runId) => store.load(runId)));
  return runs.filter((run) => run !== null);
}

/** Lets time pass to the next step, or far enough for the sweeper to look. */
async function goOn(bench: Bench): Promise<void> {
  const next = bench.queue.list().find((step) => step.state === "delayed");
  bench.clock.advance(next ? Math.max(0, next.dueAt - bench.clock.now()) : 6_000);
  if (next) return;
  await sweep({ ...bench, logger: createSilentLogger() });
  if (bench.queue.list().length === 0) throw new Error(`stuck: ${JSON.stringify(await loadAll(bench))}`);
}

function expectSound({ runs, messages, entered, owing }: Played, clean: Played): void {
  expect(runs.map(({ status }) => status)).toEqual(["completed", "completed", "completed"]);
  expect(messages).toEqual(clean.messages);
  expect(entered).toEqual(["r1", "r2", "r3", "r2"]);
  expectWhole(messages, runs.flatMap(ownParts));
  expect(owing).toEqual([]);
}

describe("a process of a session that dies at any port call", () => {
  let clean: Played;

  beforeAll(async () => {
    clean = await play();
  });

  test("plays the story as told when nobody dies", () => {
    expectSound(clean, clean);
    expect(clean.messages.map(({ content }) => content)).toEqual([
      ...["in r1", "one of r1", "noted r1", "in i1", "two of r1"],
      "in r2",
      ...["in r3", "one of r3", "noted r3", "two of r3"],
      ...["in r2", "one of r2", "noted r2", "two of r2"],
    ]);
    expect(clean.calls.length).toBeGreaterThan(60);
  });

  test.each(["before", "after", "lost"] as const)("[G1] [G2] [G3] leaves a sound session: %s", async (when) => {
    for (let call = 1; call <= clean.calls.length; call += 1) {
      try {
        expectSound(await play({ call, when }), clean);
      } catch (error) {
        throw new Error(`death ${when} call ${call} (${clean.calls[call - 1]}): ${(error as Error).message}`);
      }
    }
  });

  test("[G2] redelivering every step changes nothing", async () => {
    expectSound(await play(undefined, true), clean);
  });
});
