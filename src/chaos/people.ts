import { setTimeout as sleep } from "node:timers/promises";
import { DroverError } from "../core/errors.ts";
import type { Message } from "../core/message.ts";
import { isEnded, type OpenCall, type Run, type StopReason } from "../core/run.ts";
import type { Engine } from "../engine/engine.ts";
import type { RunHandle } from "../engine/run-handle.ts";
import { decide } from "./decider.ts";
import { type Doings, inputOf } from "./doings.ts";
import { untilAnswered } from "./until-answered.ts";

/** `isOver`: whether a run is given up in which nothing has changed since then (by `performance.now()`). */
export type RunTask = {
  agent: string;
  runId: string;
  seed: number;
  doings: Doings;
  isOver: (since: number) => boolean;
};

/** What was done about a run, for its judge. */
export type Done = {
  /** Input that was sent in mid-run, and whether the run said that it takes it. */
  input?: { text: string; taken: boolean } | undefined;
  /** Its transcript as it was when it was last retried. */
  before?: Message[] | undefined;
  retries: number;
};

const lookEveryMs = 250;
const enough = { maxTurns: 50, deadlineMs: 3_600_000 };
/** Failures that people bring about, and mend by a retry. */
const mendable: readonly (StopReason | undefined)[] = ["max_turns", "deadline", "child_failed"];
const mostRetries = 4;

type State = Done & { since: Map<string, number>; cancelled: boolean; paused: boolean; resumed: boolean };
type Visit = RunTask & { engine: Engine; passedMs: number; state: State; signal: AbortSignal };

/** Starts a run and does with it what people do, however often Redis is away, until it has ended, is gone, or stuck: its record tells. */
export async function accompany(engine: Engine, task: RunTask, signal: AbortSignal): Promise<Done> {
  const { runId, doings, agent } = task;
  const { delayMs, session, maxTurns, deadlineMs } = doings;
  const limits = {
    ...(maxTurns === undefined ? {} : { maxTurns }),
    ...(deadlineMs === undefined ? {} : { deadlineMs }),
  };
  const options = { runId, delayMs, session, limits, metadata: { chaos: true } };
  await untilAnswered(() => engine.client.start(agent, inputOf(runId), options), signal);
  const run = engine.handle(runId);
  const startedAt = performance.now();
  const state: State = { since: new Map(), cancelled: false, paused: false, resumed: false, retries: 0 };
  let progress = 0;
  let changedAt = startedAt;
  while (!task.isOver(changedAt) && !signal.aborted) {
    const head = await loadIfThere(engine, runId, signal);
    if (!head) break;
    const visit = { ...task, engine, passedMs: performance.now() - startedAt, state, signal };
    if (isEnded(head)) {
      if (!mayRetry(head, visit)) break;
      await retry(run, visit);
    } else await attend(run, head, visit);
    const seen = head.revision + (await attendChildren(head, visit));
    if (seen !== progress) changedAt = performance.now();
    progress = seen;
    await sleep(lookEveryMs, undefined, { signal }).catch(() => {});
  }
  const { input, before, retries } = state;
  return { input, before, retries };
}

async function loadIfThere({ client }: Engine, runId: string, signal: AbortSignal): Promise<Run | null> {
  return untilAnswered(() => client.load(runId), signal).catch((error: unknown) => {
    if (error instanceof DroverError && error.code === "not_found") return null;
    throw error;
  });
}

function mayRetry({ status, stopReason }: Run, { doings, state }: Visit): boolean {
  return doings.retries && status === "failed" && mendable.includes(stopReason) && state.retries < mostRetries;
}

async function retry(run: RunHandle, { state, signal, runId }: Visit): Promise<void> {
  state.before = await untilAnswered(() => run.transcript(), signal);
  const retryId = `${runId}-again-${state.retries + 1}`;
  await untilAnswered(() => run.retry({ limits: enough, retryId }), signal);
  state.retries += 1;
}

async function attend(run: RunHandle, head: Run, visit: Visit): Promise<void> {
  const { doings, state, passedMs, signal } = visit;
  const isDue = (afterMs: number | undefined): boolean => afterMs !== undefined && passedMs >= afterMs;
  if (isDue(doings.cancelAfterMs) && !state.cancelled) {
    state.cancelled = true;
    await untilAnswered(() => run.cancel({ by: "ann", reason: "chaos" }), signal);
    return;
  }
  if (isDue(doings.sendAfterMs) && !state.input) await send(run, visit);
  await hold(run, visit);
  await decideCalls(run, head, visit);
}

/** Pauses it at its time, and lets it go on at its time. */
async function hold(run: RunHandle, { doings: { pause }, state, passedMs, signal }: Visit): Promise<void> {
  if (!pause || passedMs < pause.afterMs) return;
  if (!state.paused) {
    state.paused = true;
    await untilAnswered(() => run.pause({ by: "ann", reason: "chaos" }), signal).catch(ignoreTooLate);
  } else if (!state.resumed && passedMs >= pause.afterMs + pause.forMs) {
    state.resumed = true;
    await untilAnswered(() => run.resume({ by: "ann" }), signal).catch(ignoreTooLate);
  }
}

/** The same input, under the same name, from however many: it is one. */
async function send(run: RunHandle, { doings, state, signal, runId }: Visit): Promise<void> {
  const text = `And one thing more of ${runId}.`;
  const give = (): Promise<boolean> =>
    untilAnswered(() => run.send(text, { by: "ann", inputId: `${runId}-more` }), signal).then(
      () => true,
      (error: unknown) => {
        ignoreTooLate(error);
        return false;
      },
    );
  const taken = await Promise.all(doings.twice ? [give(), give()] : [give()]);
  state.input = { text, taken: taken.includes(true) };
}

/** Decides what the children of a run ask. @returns a number that grows with what they do */
async function attendChildren(head: Run, visit: Visit): Promise<number> {
  let progress = 0;
  for (const { child } of head.calls) {
    const found = child && (await loadIfThere(visit.engine, child.runId, visit.signal));
    if (!found) continue;
    const { runId } = found;
    if (!isEnded(found)) await decideCalls(visit.engine.handle(runId), found, { ...visit, runId });
    progress += found.revision + (await attendChildren(found, visit));
  }
  return progress;
}

async function decideCalls(run: RunHandle, head: Run, visit: Visit): Promise<void> {
  const { doings, state, passedMs, runId } = visit;
  for (const call of head.calls) {
    if (!decide(visit.seed, runId, call)) continue;
    const name = `${runId} ${call.callId}-${call.state}`;
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
  await Promise.all(people.map((by) => untilAnswered(() => give(by), signal).catch(ignoreTooLate)));
}

/** Somebody was faster, or the run has ended meanwhile. */
function ignoreTooLate(error: unknown): void {
  if (error instanceof DroverError && error.code === "not_allowed") return;
  throw error;
}
