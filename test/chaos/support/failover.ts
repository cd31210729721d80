import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { onTestFinished } from "vitest";
import type { Drover } from "../../../src/drover.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../../support/fake-openai.ts";
import { resultsOf, runIdOf, type World } from "../../support/world.ts";
import { most, tellFigure } from "./figure.ts";

/** A Redis that survives the loss of its primary, and the ways to hurt it. */
export type Site = {
  url: string;
  /** A plain client to whoever is primary of the runs now. */
  openRedis(): Promise<Redis>;
  /** From now on the replicas of the runs' primary get nothing, as on a network that is cut. */
  cut(): Promise<void>;
  /** Kills the primary, frees the replicas, and resolves when one of them has taken its place; epoch ms. */
  failOver(): Promise<Failover>;
  /** Starts what was killed; resolves when it follows the new primary and everybody knows. */
  heal(): Promise<void>;
};
export type Failover = { killedAt: number; takenAt: number };

/** What a producer was told of one start. */
export type Acknowledged = { runId: string /** Epoch ms. */; at: number };

/** Starts runs one after the other, as callers do: one that is refused is started again under its id. */
export type Load = {
  acknowledged: readonly Acknowledged[];
  /** How long each refusal took, in ms. */
  refusals: readonly number[];
  /** Ends once what was begun is acknowledged. */
  stop(): Promise<void>;
};

/** @param everyMs from one start to the next, while Redis takes them. */
function startLoad(drover: Drover, name: string, everyMs: number): Load {
  const acknowledged: Acknowledged[] = [];
  const refusals: number[] = [];
  let stopped = false;
  async function startOne(runId: string): Promise<void> {
    for (;;) {
      const beganAt = performance.now();
      try {
        await drover.start("e2e", `${runId} go`, { runId });
        acknowledged.push({ runId, at: Date.now() });
        return;
      } catch (error) {
        if ((error as { code?: string }).code !== "queue_unavailable") throw error;
        refusals.push(performance.now() - beganAt);
        await sleep(50);
      }
    }
  }
  async function go(): Promise<void> {
    for (let count = 0; !stopped; count++) {
      await startOne(`${name}-${count}`);
      await sleep(everyMs);
    }
  }
  const going = go();
  onTestFinished(() => {
    stopped = true;
    return going.catch(() => {}); // told to whoever stops it
  });
  return {
    acknowledged,
    refusals,
    stop: () => {
      stopped = true;
      return going;
    },
  };
}

/**
 * Turns of the runs under load: look up something; write it down idempotently and, if asked for, once for all; answer. The
 * arguments differ from turn to turn.
 */
export function answering(writer: "put" | "post", thinkMs = 20): (request: FakeRequest) => FakeReply {
  return (request) => {
    const turn = turnOf(request.body);
    const runId = runIdOf(request);
    if (turn > 3) return { text: `done with ${runId}`, delayMs: thinkMs };
    const names = turn === 1 ? ["look"] : turn === 2 ? [writer, "put"] : [writer];
    const toolCalls = names.map((name) => ({ name, arguments: { note: `${name} ${turn}`, takeMs: 10 } }));
    return { toolCalls, delayMs: thinkMs };
  };
}

/** Acknowledged starts of which there is no record, once Redis answers. */
async function lostOf(world: World, acknowledged: readonly Acknowledged[]): Promise<Acknowledged[]> {
  const lost: Acknowledged[] = [];
  for (const start of acknowledged) {
    const found = await world.drover
      .get(start.runId)
      .status()
      .catch((error: { code?: string }) => {
        if (error.code === "not_found") return undefined;
        throw error;
      });
    if (!found) lost.push(start);
  }
  return lost;
}

/** How long after `since` (epoch ms) the first request reached the model server that came after `from`; in ms. */
async function firstStepAfter(world: World, since: number, from: number, timeoutMs = 60_000): Promise<number> {
  const until = performance.now() + timeoutMs;
  for (;;) {
    const first = world.server.requests.find(({ at }) => at >= from);
    if (first) return first.at - since;
    if (performance.now() > until) throw new Error(`no step within ${timeoutMs} ms of the failover`);
    await sleep(10);
  }
}

/** How long the replicas are cut off before the primary is killed. */
const cutMs = 400;

/** One failover under load: what was acknowledged, and what of it was lost. */
export type Outcome = Failover & {
  acknowledged: readonly Acknowledged[];
  lost: Acknowledged[];
  cutAt: number;
  /** From the failover's end to the first call of a model, and to the end of all runs, ms. */
  firstMs: number;
  allMs: number;
  refusals: readonly number[];
};

/** Loads, cuts the replicas off, fails over, loads on, and waits until all runs have ended; lost ones are started again. */
export async function hurt(world: World, site: Site, name: string): Promise<Outcome> {
  const load = startLoad(world.drover, name, 20);
  await sleep(1_000);
  const cutAt = Date.now();
  await site.cut();
  await sleep(cutMs);
  const { killedAt, takenAt } = await site.failOver();
  const firstMs = await firstStepAfter(world, takenAt, takenAt);
  await sleep(500);
  await load.stop();
  const { acknowledged, refusals } = load;
  const lost = await lostOf(world, acknowledged);
  // Under their ids, as callers do that find them missing.
  for (const { runId } of lost) await world.drover.start("e2e", `${runId} go`, { runId });
  await resultsOf(
    acknowledged.map(({ runId }) => world.drover.get(runId)),
    60_000,
  );
  return { killedAt, takenAt, cutAt, firstMs, allMs: Date.now() - takenAt, acknowledged, lost, refusals };
}

/** What a number of failovers did, in one line. */
export function report(what: string, outcomes: readonly Outcome[]): void {
  const sum = (of: (outcome: Outcome) => readonly unknown[]): number =>
    outcomes.reduce((total, outcome) => total + of(outcome).length, 0);
  const largest = (of: (outcome: Outcome) => number): number => most(outcomes.map(of));
  const refusals = outcomes.flatMap((outcome) => outcome.refusals);
  tellFigure(
    what,
    `${outcomes.length} failovers, ${sum(({ lost }) => lost)} of ${sum(({ acknowledged }) => acknowledged)} acknowledged ` +
      `runs lost; a failover took at most ${largest(({ takenAt, killedAt }) => takenAt - killedAt)} ms, the first step came ` +
      `at most ${largest(({ firstMs }) => firstMs)} ms after it, all was done after ${largest(({ allMs }) => allMs)} ms; ` +
      `${refusals.length} refusals of at most ${most(refusals)} ms`,
  );
}
