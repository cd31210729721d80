import { expect } from "vitest";
import { makeRun } from "../../src/core/new-run.ts";
import type { Run, SessionPlace } from "../../src/core/run.ts";
import type { RunStore } from "../../src/ports.ts";
import { at, change, committed, nextToken, runCreated, trace, user } from "./run-fixtures.ts";

/** The session of these tests. */
export const session = "chat-1";

export function sessionRun(runId: string, fields: Partial<Run> = {}): Run {
  const messages = [user(`input of ${runId}`)];
  const input = { runId, agent: "assistant", messages, inputHash: "hash", trace, at, token: nextToken(), session };
  return { ...makeRun(input), ...fields };
}

export const place = (state: SessionPlace["state"], round = 1): SessionPlace => ({ state, round, owedAt: round });

/** A run of the session, stored. */
export async function begin(store: RunStore, runId: string, fields: Partial<Run> = {}): Promise<Run> {
  const run = sessionRun(runId, fields);
  expect(await store.create(run, [], [runCreated(run)])).toEqual({ created: true });
  return run;
}

/** Enters the transcript, `length` messages long, with the run's input, as the transition would have it. */
export function enter(store: RunStore, run: Run, length: number): Promise<Run> {
  const messageCount = length + run.pendingInput.length;
  const append = run.pendingInput.map((one) => ({ type: "message" as const, message: one }));
  const fields = { baseMessage: length, messageCount, pendingInput: [], place: place("active"), inputCount: 1 };
  return committed(store, change(run, fields, { append }));
}

export function leave(store: RunStore, run: Run): Promise<Run> {
  return committed(store, change(run, { status: "completed", model: undefined, place: place("leaving") }));
}
