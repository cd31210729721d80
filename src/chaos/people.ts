import { setTimeout as sleep } from "node:timers/promises";
import { DroverError, isOutage } from "../core/errors.ts";
import { isEnded, type OpenCall, type Run } from "../core/run.ts";
import type { Engine } from "../engine/engine.ts";
import type { RunHandle } from "../engine/run-handle.ts";
import { decide } from "./decider.ts";
import { randomFor } from "./random.ts";

/** What people do about one run: told by its id and the seed alone. */
export type Doings = {
  delayMs?: number | undefined;
  session?: string | undefined;
  /** So few turns that it fails; it is then retried with more. */
  maxTurns?: number | undefined;
  cancelAfterMs?: number | undefined;
  sendAfterMs?: number | undefined;
  /** How long a person takes to decide. */
  decideAfterMs: number;
  /** Decisions are given twice, by two people at once. */
  twice: boolean;
};

/** @param lively cancels, sessions, input in mid-turn and retries too; else starts, delays and decisions alone. */
export function doingsOf(seed: number, runId: string, lively: boolean): Doings {
  const random = randomFor(seed, "doings", runId);
  const seldom = <T>(share: number, value: () => T): T | undefined => {
    const chosen = random.chance(share);
    const made = value();
    return chosen ? made : undefined;
  };
  const plain = {
    delayMs: seldom(0.1, () => random.between(10, 3_000)),
    decideAfterMs: random.chance(0.2) ? random.between(500, 5_000) : 0,
    twice: random.chance(0.3),
  };
  if (!lively) return plain;
  return {
    ...plain,
    session: seldom(0.15, () => `talk-${random.between(1, 40)}`),
    maxTurns: seldom(0.05, () => 1),
    cancelAfterMs: seldom(0.06, () => random.between(0, 4_000)),
    sendAfterMs: seldom(0.1, () => random.between(0, 3_000)),
  };
}

/** `isOver`: whether a run is given up in which nothing has changed since then (by `performance.now()`). */
export type RunTask = {
  agent: string;
  runId: string;
  seed: number;
  doings: Doings;
  isOver: (since: number) => boolean;
};

const lookEveryMs = 250;
const enoughTurns = 50;

/** Starts a run and does with it what people do, however often Redis is away, until it has ended, is gone, or stuck: its record tells. */
export async function accompany(engine: Engine, task: RunTask, signal: AbortSignal): Promise<void> {
  const { runId, doings, agent } = task;
  const { delayMs, session, maxTurns } = doings;
  const limits = maxTurns === undefined ? undefined : { maxTurns };
  const options = { runId, delayMs, session, limits, metadata: { chaos: true } };
  await again(() => engine.client.start(agent, `chaos ${runId}`, options), signal);
  const run = engine.handle(runId);
  const startedAt = performance.now();
  const state: State = { since: new Map(), cancelled: false, sent: false };
  let revision = 0;
  let changedAt = startedAt;
  while (!task.isOver(changedAt) && !signal.aborted) {
    const head = await again(() => engine.client.load(runId), signal).catch((error: unknown) => {
      if (error instanceof DroverError && error.code === "not_found") return null;
      throw error;
    });
    if (!head) return;
    if (head.revision !== revision) changedAt = performance.now();
    revision = head.revision;
    if (isEnded(head)) {
      const retried = head.stopReason === "max_turns" && maxTurns !== undefined && head.limits.maxTurns === maxTurns;
      if (!retried || head.retryLimits) return;
      await again(() => run.retry({ limits: { maxTurns: enoughTurns }, retryId: `${runId}-again` }), signal);
    } else await attend(run, head, { ...task, passedMs: performance.now() - startedAt, state, signal });
    await sleep(lookEveryMs, undefined, { signal }).catch(() => {});
  }
}

type State = { since: Map<string, number>; cancelled: boolean; sent: boolean };
type Visit = RunTask & { passedMs: number; state: State; signal: AbortSignal };

async function attend(run: RunHandle, head: Run, visit: Visit): Promise<void> {
  const { doings, state, passedMs, signal, runId } = visit;
  if (doings.cancelAfterMs !== undefined && passedMs >= doings.cancelAfterMs && !state.cancelled) {
    state.cancelled = true;
    await again(() => run.cancel({ by: "ann", reason: "chaos" }), signal);
    return;
  }
  if (doings.sendAfterMs !== undefined && passedMs >= doings.sendAfterMs && !state.sent) {
    state.sent = true;
    const send = (): Promise<void> => run.send("And one thing more.", { by: "ann", inputId: `${runId}-more` });
    await again(send, signal).catch(ignoreTooLate);
  }
  for (const call of head.calls) {
    const decision = decide(visit.seed, runId, call);
    if (!decision) continue;
    const name = `${call.callId}-${call.state}`;
    const since = state.since.get(name) ?? passedMs;
    state.since.set(name, since);
    if (passedMs - since >= doings.decideAfterMs) await settle(run, call, visit);
  }
}

async function settle(run: RunHandle, call: OpenCall, { seed, runId, doings, signal }: Visit): Promise<void> {
  const decision = decide(seed, runId, call);
  const { callId } = call;
  const give = (by: string): Promise<void> => {
    const decisionId = `${callId}-${call.state}-${by}`;
    if (decision?.type === "answer") return run.answer(callId, decision.value, { by, decisionId });
    if (decision?.type === "approve") return run.approve(callId, { by, decisionId });
    return run.deny(callId, { by, decisionId, reason: "not today" });
  };
  const people = doings.twice ? ["ann", "bob"] : ["ann"];
  await Promise.all(people.map((by) => again(() => give(by), signal).catch(ignoreTooLate)));
}

/** Somebody was faster, or the run has ended meanwhile. */
function ignoreTooLate(error: unknown): void {
  if (error instanceof DroverError && error.code === "not_allowed") return;
  throw error;
}

/** Until Redis answers. */
async function again<T>(command: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await command();
    } catch (error) {
      if (!isOutage(error) || signal.aborted) throw error;
      await sleep(100, undefined, { signal }).catch(() => {});
    }
  }
}
