import { expect } from "vitest";
import type { Change } from "../../src/core/change.ts";
import type { FeedEntry } from "../../src/core/event.ts";
import type { Message, ToolMessage } from "../../src/core/message.ts";
import { makeRun } from "../../src/core/new-run.ts";
import { type OpenCall, type Run, type RunTrace } from "../../src/core/run.ts";
import type { RunStore } from "../../src/ports.ts";

export const trace: RunTrace = {
  traceId: "0af7651916cd43dd8448eb211c80319c",
  rootSpanId: "b7ad6b7169203331",
  flags: 1,
};
/** When every run of these tests is made, unless one says otherwise. */
export const at = 1_000_000;

let tokens = 0;
/** A token no other commit has. */
export function nextToken(): string {
  tokens += 1;
  return `token${tokens}`;
}

export function user(content: string): Message {
  return { role: "user", content };
}

export function toolResult(callId: string, content: string): ToolMessage {
  return { role: "tool", callId, toolCallId: `p-${callId}`, name: "lookup", content, outcome: "ok" };
}

export function openCall(position: number, fields: Partial<OpenCall> = {}): OpenCall {
  return {
    callId: `call-1-${position}`,
    toolCallId: `p-${position}`,
    turn: 1,
    position,
    tool: "lookup",
    effect: "read",
    repeatable: true,
    onUnknown: "tell",
    timeoutMs: 1_000,
    attempt: 1,
    owedAt: 2,
    state: "ready",
    ...fields,
  } as OpenCall;
}

export function newRun(fields: Partial<Run> = {}, messages: Message[] = [user("hello")]): Run {
  const { runId = "run-a", agent = "assistant", token = nextToken(), createdAt = at } = fields;
  return { ...makeRun({ runId, agent, messages, inputHash: "hash", trace, at: createdAt, token }), ...fields };
}

/** A run with its one message, stored. */
export async function created(
  store: RunStore,
  fields: Partial<Run> = {},
  messages: Message[] = [user("hello")],
): Promise<Run> {
  const run = newRun(fields, messages);
  expect(await store.create(run, messages, [runCreated(run)])).toEqual({ created: true });
  return run;
}

export function runCreated(run: Run): FeedEntry {
  return { seq: 1, at: run.createdAt, turn: 0, type: "run_created", messages: [0, run.messageCount] };
}

/** The next change of a run, consistent in its counts. */
export function change(
  previous: Run,
  fields: Partial<Run> = {},
  parts: Partial<Omit<Change, "previous" | "run">> = {},
): Change {
  const { append = [], results = [], entries = [] } = parts;
  const run: Run = {
    ...previous,
    revision: previous.revision + 1,
    token: nextToken(),
    messageCount: previous.messageCount + append.length,
    eventSeq: previous.eventSeq + entries.length,
    ...fields,
  };
  return { previous, run, append, results, entries };
}

export function message(content: string): Change["append"][number] {
  return { type: "message", message: user(content) };
}

export function inputReceived(seq: number): FeedEntry {
  return { seq, at, turn: 0, type: "input_received", count: seq };
}

/** Commits and gives back the run as committed. */
export async function committed(store: RunStore, next: Change): Promise<Run> {
  expect(await store.commit(next)).toEqual({ committed: true });
  return next.run;
}
