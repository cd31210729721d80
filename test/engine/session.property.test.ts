// Catches: an order of starts, ends, cancels, retries and inputs, with processes dying anywhere in between, that lets two
// runs of a session at the transcript, changes their order, loses or doubles an input, or leaves a run stuck.
import fc from "fast-check";
import { expect, test } from "vitest";
import { isEnded, type Run } from "../../src/core/run.ts";
import { ownParts, sessionTranscript } from "../../src/core/session.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { sweep } from "../../src/engine/sweep.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { type CrashPoint, createFaults } from "../../src/testing/index.ts";
import { expectWhole, makeTalker, watchSession } from "./session-support.ts";
import { type Bench, makeBench } from "./support.ts";

const session = "chat";

const actionArb = fc.record({
  kind: fc.constantFrom(
    "start",
    "start",
    "inject",
    "deliver",
    "deliver",
    "deliver",
    "again",
    "cancel",
    "retry",
    "wait",
  ),
  pick: fc.nat(5),
  /** The process dies at that port call of the action, if it makes so many. */
  death: fc.option(
    fc.record({ call: fc.integer({ min: 1, max: 8 }), when: fc.constantFrom("before", "after", "lost") }),
    {
      nil: undefined,
      freq: 2,
    },
  ),
});
type Action = typeof actionArb extends fc.Arbitrary<infer T> ? T : never;

type Stage = Omit<Bench, "process"> & {
  retried: Set<string>;
  given: string[];
  problems: string[];
  process(point?: CrashPoint): Process;
};
type Process = { engine: Engine; dead(): boolean };

function makeStage(): Stage {
  const bench = makeBench();
  const problems: string[] = [];
  const watched = watchSession(bench.store, session, (what) => problems.push(what));
  const retried = new Set<string>();
  // Every third run fails until somebody retries it.
  const fails = (runId: string): boolean => runId.endsWith("3") && !retried.has(runId);
  const agent = makeTalker({ fails, answers: 30, effect: "read" });
  return {
    ...bench,
    retried,
    given: [],
    problems,
    process: (point) => {
      const faults = createFaults(point);
      const [store, queue] = [faults.wrap("store", watched.store), faults.wrap("queue", bench.queue)];
      const engine = bench.process({ agents: [agent], store, queue });
      return { engine, dead: faults.dead };
    },
  };
}

/** Delivers the next step in a process of its own; if that dies, the step comes back. */
async function deliver(stage: Stage, { death, kind }: Partial<Action>): Promise<boolean> {
  const taken = stage.queue.take();
  if (!taken) return false;
  const { engine, dead } = stage.process(death as CrashPoint | undefined);
  const outcome = await engine.runStep(taken.delivery);
  await new Promise(setImmediate);
  if (dead() || kind === "again") stage.queue.redeliver(taken.delivery.step);
  else taken.end(outcome);
  engine.close();
  return true;
}

async function act(stage: Stage, action: Action): Promise<void> {
  const { kind, pick, death } = action;
  if (kind === "wait") return stage.clock.advance(pick * 100);
  if (kind === "deliver" || kind === "again") {
    await deliver(stage, action);
    return;
  }
  const known = stage.given[pick % Math.max(stage.given.length, 1)];
  if (known === undefined && (kind === "cancel" || kind === "retry")) return;
  const runId = known ?? "";
  const fresh = `${kind}-${stage.given.length}`;
  if (kind === "start" || kind === "inject") stage.given.push(fresh);
  if (kind === "retry") stage.retried.add(runId);
  const give = async ({ client }: Engine): Promise<unknown> => {
    if (kind === "cancel") return client.command(runId, { type: "cancel_requested", by: "ann", reason: "no" });
    if (kind === "retry") return client.command(runId, { type: "retry_requested", by: "ann" });
    const whenBusy = kind === "inject" ? ("inject" as const) : undefined;
    return client.start("talker", `in ${fresh}`, { runId: fresh, session, whenBusy });
  };
  // Given again until it is answered, by another process if the first one died.
  for (const point of [death as CrashPoint | undefined, undefined]) {
    const { engine, dead } = stage.process(point);
    const error = await give(engine).then(
      () => null,
      (thrown: Error) => thrown,
    );
    await new Promise(setImmediate);
    engine.close();
    if (error && !dead() && !/No run has the id/.test(error.message)) throw error;
    if (!dead()) return;
  }
}

/** Lets everything come to its end: steps are delivered, time passes, the sweeper looks. */
async function settle(stage: Stage): Promise<void> {
  for (let turns = 0; turns < 2_000; turns += 1) {
    if (await deliver(stage, {})) continue;
    if (stage.queue.list().length > 0) stage.clock.advance(500);
    else if ((await stage.store.owing(Number.POSITIVE_INFINITY, 1)).length === 0) return;
    else {
      stage.clock.advance(6_000);
      await sweep({ ...stage, logger: createSilentLogger() });
      if (stage.queue.list().length === 0) throw new Error("a run owes something that nobody queues");
    }
  }
  throw new Error(`it goes in circles: ${JSON.stringify(stage.queue.list())} ${JSON.stringify(await allRuns(stage))}`);
}

async function allRuns({ store }: Stage): Promise<Run[]> {
  return (await store.list({ session, limit: 1_000 })).runs;
}

test("[G2] [G3] whatever happens to a session, its runs take turns and all come to an end", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(actionArb, { minLength: 1, maxLength: 30 }), async (actions) => {
      const stage = makeStage();
      for (const action of actions) await act(stage, action);
      await settle(stage);
      expect(stage.problems).toEqual([]);
      const runs = await allRuns(stage);
      expect(runs.filter((run) => !isEnded(run) || run.place !== undefined)).toEqual([]);
      expect((await stage.store.readSession(session, 10)).line).toEqual([]);
      const messages = await stage.store.readMessages(sessionTranscript(session), 0, 1_000);
      expectWhole(messages, runs.flatMap(ownParts));
      for (const id of stage.given) {
        const said = messages.filter(({ role, content }) => role === "user" && content === `in ${id}`).length;
        const run = runs.find(({ runId }) => runId === id);
        // Once, and again for each part that a retry after others began; ended before its turn: not at all.
        if (run) expect(said).toBe(run.inputCount === undefined ? 0 : 1 + (run.earlierParts?.length ?? 0));
        // It entered another run, or waits in one that ended first and can be retried.
        else expect(said + runs.filter((other) => other.pendingInput.some(isInput(id))).length).toBe(1);
      }
    }),
    { numRuns: 2_000 },
  );
}, 60_000);

function isInput(id: string): (message: { content: unknown }) => boolean {
  return ({ content }) => content === `in ${id}`;
}
