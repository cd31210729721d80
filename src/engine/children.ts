// Child runs at work: see src/core/child.ts for what holds. Parent and child may be in different shards, so nothing changes
// both at once; whatever is done here for a second time changes nothing.

import type { CallChild, RunParent } from "../core/child.ts";
import { toError } from "../core/errors.ts";
import type { RunEvent } from "../core/event.ts";
import { effectiveLimits } from "../core/limits.ts";
import type { Message } from "../core/message.ts";
import { problemOfStart, type StartPayload } from "../core/new-run.ts";
import type { Step } from "../core/owed.ts";
import { isEnded, noUsage, type OpenCall, type Run } from "../core/run.ts";
import { waitsForChild } from "../core/transition-children.ts";
import type { AgentCode, ChildRequest, StepOutcome } from "../ports.ts";
import { createRun } from "./create-run.ts";
import { holdUnknown } from "./hold.ts";
import { dropUnusedText, keepResult } from "./keep-result.ts";
import { outputOf } from "./output-of.ts";
import { queueOwed } from "./queue-owed.ts";
import { quietly } from "./quietly.ts";
import { afterReport, endDelivery, type RunStepDeps, type StepContext, spanTimes, stepTimes } from "./step.ts";
import { isWaitedFor } from "./waited-for.ts";

type Starting = { agent: AgentCode; run: Run; open: OpenCall; context: StepContext };

/** Starts the run that is a call's execution. Started before, it is the same one. */
export async function startChild(deps: RunStepDeps, starting: Starting, request: ChildRequest): Promise<StepOutcome> {
  const { run, open, context } = starting;
  const refusal = await tryStart(deps, starting, request);
  const { step } = context;
  const event: RunEvent =
    refusal === undefined
      ? { type: "child_started", step }
      : { type: "tool_finished", step, content: `"${open.tool}" was not started: ${refusal}`, outcome: "failed" };
  // Not as a pipeline: what the child owes was queued before, and nothing of the call is owed at once.
  return afterReport(deps, await deps.advance(run.runId, event, { head: run }), context);
}

/** @returns why the child cannot be started, for the model; undefined if it is there */
async function tryStart(
  deps: RunStepDeps,
  { agent, run, open, context }: Starting,
  { agent: childAgent, input, limits, maxDepth }: ChildRequest,
): Promise<string | undefined> {
  const { child, callId, turn, attempt } = open;
  const depth = (run.parent?.depth ?? 0) + 1;
  if (!child) return "the call was planned as another tool's. Call it again";
  if (depth > maxDepth) return `agents may hand on work ${maxDepth} times at most. Do it yourself, or say what is left`;
  const payload = toPayload(run, { agent: childAgent, input });
  const problem = problemOfStart(payload);
  if (problem !== undefined) return `its input cannot be used (${problem})`;
  const { owedAt } = context.step;
  const parent: RunParent = { runId: run.runId, callId, depth };
  const bounded = { ...payload, limits: { ...limits, ...remaining(agent, run, limits, deps.clock.now()) } };
  const create = (): Promise<Run> => createRun(deps, child.runId, bounded, { priority: run.priority, parent });
  try {
    // Within the call's span, so that the child's trace hangs under it.
    await deps.telemetry.withStep(run, { kind: "tool", turn, attempt, callId, owedAt }, create);
    return undefined;
  } catch (thrown) {
    const error = toError(thrown);
    if (!("code" in error) || error.code !== "conflict") throw error;
    return `the id "${child.runId}" is another run's`;
  }
}

function toPayload(run: Run, asked: Pick<StartPayload, "agent" | "input">): StartPayload {
  const { runId, tenant, metadata, dryRun } = run;
  return {
    ...asked,
    metadata,
    by: `run ${runId}`,
    ...(tenant === undefined ? {} : { tenant }),
    ...(dryRun ? { dryRun } : {}),
  };
}

type Budgets = Pick<NonNullable<StartPayload["limits"]>, "maxTokens" | "maxCostUsd" | "deadlineMs">;

/** A child may spend what its parent has left, and has no longer than it. */
function remaining(agent: AgentCode, run: Run, own: Budgets = {}, at: number): Budgets {
  const { maxTokens, maxCostUsd } = effectiveLimits(agent.limits, run);
  const { inputTokens, outputTokens, costUsd = 0 } = run.usage;
  const left = {
    maxTokens: maxTokens === undefined ? undefined : maxTokens - inputTokens - outputTokens,
    maxCostUsd: maxCostUsd === undefined ? undefined : maxCostUsd - costUsd,
    deadlineMs: run.deadlineAt === undefined ? undefined : Math.ceil(run.deadlineAt - at),
  };
  const budgets: Budgets = {};
  for (const name of ["maxTokens", "maxCostUsd", "deadlineMs"] as const) {
    // What is used up already still lets the child begin, and ends it at its first look at its limits.
    const least = name === "maxCostUsd" ? Number.MIN_VALUE : 1;
    const value = Math.min(
      own[name] ?? Number.POSITIVE_INFINITY,
      Math.max(left[name] ?? Number.POSITIVE_INFINITY, least),
    );
    if (value !== Number.POSITIVE_INFINITY) budgets[name] = value;
  }
  return budgets;
}

/** Whether the tool step of a call is a look at its child, not its start. */
export function looksAtChild(run: Run, { callId }: Step): boolean {
  return run.calls.find((call) => call.callId === callId)?.child?.since !== undefined;
}

/** A call looks at its child: what came of it is the call's result, unless the child goes on or is to be tried again. */
export async function lookAtChild(
  deps: RunStepDeps,
  run: Run,
  last: Message | undefined,
  context: StepContext,
): Promise<StepOutcome> {
  const { step } = context;
  const agent = deps.agents.get(run.agent);
  if (!agent) return holdUnknown(deps, run, context);
  const open = run.calls.find(({ callId }) => callId === step.callId);
  if (!open?.child) return endDelivery(deps, run, context);
  const found = await deps.store.loadWithLastMessage(open.child.runId);
  const seen: Seen = { run, open, child: open.child, context, found: isOwn(found?.run, run, open) ? found : null };
  const next = await goesOn(deps, seen);
  if (next) return afterReport(deps, await deps.advance(run.runId, next, { head: run }), context);
  return finish(deps, agent, seen, last);
}

type Seen = {
  run: Run;
  open: OpenCall;
  child: CallChild;
  context: StepContext;
  /** The child as it is; null: its record is gone, or its id has become another run's. */
  found: { run: Run; last: Message | undefined } | null | undefined;
};

function isOwn(child: Run | undefined, { runId }: Run, { callId }: OpenCall): boolean {
  return child?.parent?.runId === runId && child.parent.callId === callId;
}

/** What there is to say of a child that brings no result yet; undefined if it has ended for good. */
async function goesOn(deps: RunStepDeps, seen: Seen): Promise<RunEvent | undefined> {
  const { child, context, found } = seen;
  const { step } = context;
  const retries = child.onFailure === "retry" ? child.retries : 0;
  if (!found) return (child.lost ?? 0) < retries ? { type: "child_lost", step } : undefined;
  if (!isEnded(found.run)) return { type: "child_goes_on", step };
  const retry = (found.run.parent?.retries ?? 0) + 1;
  // One that somebody cancelled is not to go on.
  if (found.run.status !== "failed" || retry > retries) return undefined;
  await retryChild(deps, seen.run, found.run, retry);
  return { type: "child_goes_on", step };
}

async function retryChild(deps: RunStepDeps, run: Run, child: Run, retry: number): Promise<void> {
  const event: RunEvent = { type: "child_retried", retry, by: `run ${run.runId}` };
  const retried = await deps.advance(child.runId, event, { head: child });
  // Retried before: whoever did may have died before queueing its step.
  if (!retried.change && retried.run) await queueOwed(deps, retried.run);
}

async function finish(
  deps: RunStepDeps,
  agent: AgentCode,
  seen: Seen,
  last: Message | undefined,
): Promise<StepOutcome> {
  const { run, open, child, context } = seen;
  const answeredAt = deps.clock.now();
  const calledAt = child.since ?? answeredAt;
  const { isGood, text } = toResult(seen);
  const kept = await keepResult(deps, agent, { run, open }, text);
  const event = toFinished(seen, { ...kept, isGood, text, answeredAt });
  const result = await deps.advance(run.runId, event, { head: run, pipeline: true });
  await dropUnusedText(deps, { run, open, context }, kept.full, result);
  const call = last?.role === "assistant" ? last.toolCalls?.find(({ callId }) => callId === open.callId) : undefined;
  if (result.change && call) {
    deps.telemetry.recordStep({
      kind: "tool",
      owedAt: child.begunBy ?? context.step.owedAt,
      run: result.change.run,
      turn: open.turn,
      attempt: open.attempt,
      call,
      effect: open.effect,
      description: agent.definition.tools.find((tool) => tool.name === open.tool)?.description,
      ...(isGood ? { result: kept.content } : { errorType: "child_failed" }),
      ...spanTimes(context, { calledAt, answeredAt, endedAt: deps.clock.now() }),
    });
  }
  return afterReport(deps, result, context);
}

type Result = Awaited<ReturnType<typeof keepResult>> & { isGood: boolean; text: string; answeredAt: number };

function toFinished({ child, context, found }: Seen, { isGood, text, answeredAt, ...kept }: Result): RunEvent {
  const { status, stopReason, usage } = found?.run ?? {
    status: "gone" as const,
    stopReason: undefined,
    usage: noUsage,
  };
  const fails = { code: "child_failed", message: `${text} Retry this run once that is mended.` };
  return {
    type: "child_finished",
    step: context.step,
    ...kept,
    outcome: isGood ? "ok" : "failed",
    end: { status, ...(stopReason ? { stopReason } : {}) },
    usage,
    ...(isGood || child.onFailure !== "fail" ? {} : { fails }),
    times: stepTimes(context, { calledAt: answeredAt, answeredAt }),
  };
}

/** What the model reads: the child's answer, or which child did not complete and why. */
function toResult({ open, child, found }: Seen): { isGood: boolean; text: string } {
  const who = `Run "${child.runId}" of agent "${child.agent}", started by "${open.tool}" ${open.callId},`;
  if (!found) return { isGood: false, text: `${who} is lost: its record is gone.` };
  const { status, stopReason, error, parent } = found.run;
  if (status === "completed") return { isGood: true, text: outputOf(found.run, found.last) ?? "" };
  const retries = parent?.retries ? ` after ${parent.retries === 1 ? "1 retry" : `${parent.retries} retries`}` : "";
  const why = stopReason && stopReason !== status ? ` (${stopReason})` : "";
  return {
    isGood: false,
    text: `${who} ${verbs[status] ?? status}${retries}${why}: ${error?.message ?? "no reason is known."}`,
  };
}

const verbs: { [status in Run["status"]]?: string } = { failed: "failed", cancelled: "was cancelled" };

/** A child that has ended tells its parent, if that still waits; then it owes nothing any more. */
export async function tellParent(deps: RunStepDeps, run: Run, context: StepContext): Promise<StepOutcome> {
  const { parent, runId } = run;
  if (parent?.owedAt === undefined) return endDelivery(deps, run, context);
  const { callId, owedAt } = parent;
  const head = await deps.store.load(parent.runId);
  if (head && waitsForChild(head, { callId, childId: runId })) {
    const event: RunEvent = { type: "child_ended", callId, childId: runId, revision: owedAt };
    const told = await deps.advance(parent.runId, event, { head });
    if (!told.change && told.run) await queueOwed(deps, told.run);
  }
  const result = await deps.advance(runId, { type: "parent_told", owedAt }, { head: run, pipeline: true });
  return afterReport(deps, result, context);
}

/** A run that has ended ends the children that its calls waited for, wherever they are. */
export async function endChildren(deps: RunStepDeps, run: Run, context: StepContext): Promise<StepOutcome> {
  const { runId, leftChildren } = run;
  if (!leftChildren) return endDelivery(deps, run, context);
  const { owedAt, runIds } = leftChildren;
  for (const childId of runIds) {
    const child = await deps.store.load(childId);
    if (!child || isEnded(child) || child.parent?.runId !== runId) continue;
    await cancelChild(deps, child);
  }
  const result = await deps.advance(runId, { type: "children_ended", owedAt }, { head: run, pipeline: true });
  return afterReport(deps, result, context);
}

async function cancelChild(deps: RunStepDeps, child: Run): Promise<Run | null> {
  const { runId, parent } = child;
  const by = `run ${parent?.runId}`;
  const event: RunEvent = { type: "cancel_requested", by, reason: "the run that started it waits for it no longer" };
  const result = await deps.advance(runId, event, { head: child });
  if (result.change) {
    const { logger, signals } = deps;
    await quietly(logger, { runId }, "the end of a child could not be announced", () => signals.announce(runId));
  }
  return result.run;
}

/**
 * A child asks at its first step, and after its parent has retried it, whether it is waited for: it may have come to life
 * after its parent had ended (K3).
 *
 * @returns the step's outcome if nobody waits, and the child was ended
 */
export async function endOrphan(deps: RunStepDeps, run: Run, context: StepContext): Promise<StepOutcome | undefined> {
  const { parent, startedAt } = run;
  if (!parent || (startedAt !== undefined && !parent.retries)) return undefined;
  if (await isWaitedFor(deps.store, run)) return undefined;
  return endDelivery(deps, await cancelChild(deps, run), context);
}
