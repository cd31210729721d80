import fc from "fast-check";
import type { Change } from "../../src/core/change.ts";
import type { CallPlan, PlannedCall, RunEvent } from "../../src/core/event.ts";
import { type Message, type ToolMessage, toCallId } from "../../src/core/message.ts";
import { makeRun } from "../../src/core/new-run.ts";
import { noUsage, type Run } from "../../src/core/run.ts";
import { transition } from "../../src/core/transition.ts";

/** A run and its transcript as a store would keep them: the change applied by its plain meaning. */
export type World = { run: Run; messages: Message[]; results: Map<string, ToolMessage>; clock: number; count: number };

export const trace = { traceId: "1".repeat(32), rootSpanId: "2".repeat(16), flags: 1 };

export function makeWorld(overrides: Partial<Parameters<typeof makeRun>[0]> = {}): World {
  const messages: Message[] = [{ role: "user", content: "go" }];
  const run = makeRun({
    runId: "run-1",
    agent: "a",
    messages,
    inputHash: "h",
    trace,
    at: 1_000,
    token: "t1",
    ...overrides,
  });
  return { run, messages, results: new Map(), clock: 1_000, count: 1 };
}

export function commit(world: World, change: Change): World {
  const messages = [...world.messages];
  const results = new Map(world.results);
  for (const result of change.results) results.set(result.callId, result);
  for (const item of change.append) {
    if (item.type === "message") messages.push(item.message);
    else {
      const early = results.get(item.callId);
      if (!early) throw new Error(`no early result of ${item.callId}`);
      results.delete(item.callId);
      messages.push(early);
    }
  }
  return { ...world, run: change.run, messages, results };
}

/** Applies an event a millisecond later; the world itself if the event does not apply. */
export function step(world: World, event: RunEvent): World {
  const next = { ...world, clock: world.clock + 1, count: world.count + 1 };
  const change = transition(world.run, event, { at: next.clock, token: `t${next.count}` });
  return change ? commit(next, change) : next;
}

export const runPlan: Extract<CallPlan, { effect: unknown }> = {
  type: "run",
  effect: "read",
  repeatable: true,
  onUnknown: "tell",
  timeoutMs: 1_000,
};
export const writePlan: CallPlan = { ...runPlan, effect: "write", repeatable: false };
export const askPlan: Extract<CallPlan, { effect: unknown }> = {
  type: "ask",
  effect: "irreversible",
  repeatable: false,
  onUnknown: "ask",
  timeoutMs: 1_000,
  approvalExpiresMs: 50,
};
export const settlePlan: CallPlan = { type: "settle", content: "unknown tool" };

function planned(turn: number, plans: CallPlan[]): PlannedCall[] {
  return plans.map((plan, index) => ({
    call: { callId: toCallId(turn, index + 1), id: `id-${turn}-${index}`, name: "tool", arguments: "{}" },
    plan,
  }));
}

export function answered(run: Run, plans: CallPlan[], fields: Partial<RunEvent> = {}): RunEvent {
  return {
    type: "model_answered",
    step: { owedAt: run.model?.owedAt ?? -1, index: 0 },
    execution: `x${run.revision}`,
    message: { role: "assistant", content: "text" },
    calls: planned(run.turns + 1, plans),
    usage: { ...noUsage, inputTokens: 1, outputTokens: 1 },
    finishReason: "stop",
    manifest: { agentHash: "hash", messages: [[0, 1]], tools: [], dropped: [] },
    ...fields,
  } as RunEvent;
}

export const questionPlan: Extract<CallPlan, { type: "answer" }> = { type: "answer", from: "person", expiresMs: 50 };
export const callerPlan: Extract<CallPlan, { type: "answer" }> = { type: "answer", from: "caller" };

export const childPlan: Extract<CallPlan, { effect: unknown }> = {
  ...runPlan,
  child: { agent: "helper", onFailure: "continue", retries: 1 },
};

const planArb = fc.constantFrom(runPlan, writePlan, askPlan, settlePlan, questionPlan, callerPlan, childPlan);

/** An event made of small numbers, resolved against the run it meets: sometimes fitting, sometimes late or foreign. */
export const moveArb = fc.record({
  kind: fc.nat(29),
  pick: fc.nat(7),
  fits: fc.boolean(),
  plans: fc.array(planArb, { maxLength: 4 }),
  flag: fc.boolean(),
  wait: fc.integer({ min: 0, max: 120 }),
});
export type Move = typeof moveArb extends fc.Arbitrary<infer T> ? T : never;

/** The event that a move means for this run. Kinds without a fitting target yield events that do not apply. */
export function toEvent(run: Run, move: Move, clock: number): RunEvent {
  const call = run.calls.length > 0 ? run.calls[move.pick % run.calls.length] : undefined;
  const modelRef = { owedAt: (run.model?.owedAt ?? 1) + (move.fits ? 0 : 1), index: 0 };
  const callRef = { owedAt: (call?.owedAt ?? 1) + (move.fits ? 0 : 1), index: call?.position ?? 1 };
  const startToken =
    call && "startToken" in call && move.fits ? call.startToken : move.flag ? `start-${move.pick}` : undefined;
  const token = startToken === undefined ? {} : { startToken };
  const error = { code: "x", message: "x" };
  const nextAt = clock + move.wait;
  const anyRef = move.flag ? modelRef : callRef;
  const events: RunEvent[] = [
    answered(run, move.plans, { step: modelRef } as Partial<RunEvent>),
    answered(run, [...move.plans, runPlan], { step: modelRef } as Partial<RunEvent>),
    {
      type: "model_failed",
      step: modelRef,
      execution: `f${move.pick}`,
      error,
      usage: noUsage,
      nextAt: move.flag ? nextAt : null,
    },
    { type: "tool_started", step: callRef, startToken: `start-${move.pick}`, timeoutAt: clock + move.wait },
    {
      type: "tool_finished",
      step: callRef,
      ...token,
      content: `result ${call?.callId}`,
      outcome: move.flag ? "ok" : "failed",
    },
    { type: "tool_finished", step: callRef, ...token, content: `result ${call?.callId}`, outcome: "ok" },
    { type: "tool_failed", step: callRef, ...token, error, nextAt },
    { type: "tool_lost", step: callRef },
    { type: "tool_unknown", step: callRef, startToken: startToken ?? "none", error },
    { type: "step_held", step: anyRef, hold: { reason: "unknown_agent", detail: "d", count: 1 }, until: nextAt },
    { type: "step_admitted", step: anyRef },
    {
      type: "step_crashed",
      step: anyRef,
      count: 1 + ((move.flag ? run.model : call)?.crashes ?? 0),
      error,
      poison: move.pick === 0,
      nextAt: move.pick === 1 ? null : nextAt,
    },
    { type: "time_came" },
    move.flag
      ? { type: "approved", callId: call?.callId ?? "none", by: "p" }
      : { type: "denied", callId: call?.callId ?? "none", by: "p", reason: "no" },
    { type: "input_received", inputId: `i${move.pick}`, messages: [{ role: "user", content: "more" }] },
    move.fits && move.flag
      ? { type: "cancel_requested", by: "p", reason: "r" }
      : { type: "run_began", agentHash: "h", deadlineMs: 500 },
    move.flag
      ? { type: "retry_requested", by: "p" }
      : { type: "usage_reported", execution: `u${move.pick}`, usage: { ...noUsage, inputTokens: 1 } },
    { type: "step_isolated", step: anyRef, count: 1 + ((move.flag ? run.model : call)?.isolatedStarts ?? 0) },
    { type: "summary_wanted", step: modelRef, upTo: move.pick },
    { type: "summarised", step: modelRef, execution: `s${move.pick}`, text: "so far", usage: noUsage },
    { type: "window_shrunk", step: modelRef, execution: `w${move.pick}`, budgetTokens: 1_000 - move.wait, error },
    answered(run, [], {
      step: modelRef,
      next: move.flag ? { type: "verify" } : { type: "reask", feedback: "not JSON", max: 1 },
    } as Partial<RunEvent>),
    move.flag
      ? { type: "answer_verified", step: modelRef }
      : { type: "answer_refused", step: modelRef, feedback: "wrong", max: 1 },
    { type: "verify_failed", step: modelRef, error, nextAt: move.flag ? nextAt : null },
    { type: "answered", callId: call?.callId ?? "none", by: "p", content: `answer ${move.pick}` },
    { type: "child_started", step: callRef },
    { type: "child_ended", callId: call?.callId ?? "none", childId: call?.child?.runId ?? "c", revision: move.wait },
    { type: move.flag ? "child_goes_on" : "child_lost", step: callRef },
    {
      type: "child_finished",
      step: callRef,
      content: `result ${call?.callId}`,
      outcome: move.flag ? "ok" : "failed",
      end: { status: move.flag ? "completed" : "failed" },
      usage: { ...noUsage, inputTokens: 1 },
      ...(move.flag ? {} : { fails: error }),
    },
    move.flag ? { type: "pause_requested", by: "p", reason: "r" } : { type: "resume_requested", by: "p" },
  ];
  return events[move.kind % events.length] as RunEvent;
}
