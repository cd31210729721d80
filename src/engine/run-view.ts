import type { Effect } from "../core/agent.ts";
import type { Decision, Message } from "../core/message.ts";
import type { Redactor } from "../core/redact.ts";
import type { AnswerFrom, OpenCall, Pause, Run, RunError, RunStatus, StopReason, Usage } from "../core/run.ts";
import { waitsForSession } from "../core/session.ts";

/**
 * A call that the run waits for, as people see it. `asking`: its outcome is unknown and a person decides; `answer`: its
 * result comes from outside, see `RunHandle.answer`.
 */
export type OpenCallView = {
  callId: string;
  /** The provider's id of the call. */
  toolCallId: string;
  tool: string;
  state: Exclude<OpenCall["state"], "settled">;
  attempt: number;
  effect: Effect;
  /** JSON text of its arguments. */
  arguments: string;
  /** Names tool and arguments, for a call that may need a decision: what `approve` can be bound to. */
  argumentsHash?: string | undefined;
  /** What it would do, in its tool's words; as `argumentsHash`. */
  description?: string | undefined;
  /** Who is to give its result: a person, or the program that started the run. Of an `answer` only, as the next two. */
  from?: AnswerFrom | undefined;
  /** What a person is asked, in words. */
  question?: string | undefined;
  /** JSON Schema that the answer must fit; undefined: any. */
  answerSchema?: Record<string, unknown> | undefined;
  /** Why it asks a person, since when and until when (epoch ms). Only while it waits for somebody. */
  reason?: string | undefined;
  askedAt?: number | undefined;
  expiresAt?: number | undefined;
  /** The run that is its execution, once it was started. */
  child?: { runId: string; agent: string } | undefined;
  /** Who let it run, and when. */
  decision?: Decision | undefined;
  /** Epoch ms of the next attempt, or of what time alone will do. */
  notBefore?: number | undefined;
};

export type RunView = {
  runId: string;
  agent: string;
  status: RunStatus;
  stopReason?: StopReason | undefined;
  error?: RunError | undefined;
  session?: string | undefined;
  tenant?: string | undefined;
  /** The run whose call this one is the execution of, if any. */
  parent?: { runId: string; callId: string } | undefined;
  /** Who paused it, when and why; while it is paused. */
  paused?: Pause | undefined;
  metadata: Record<string, unknown>;
  /** While the run waits for its turn in its session: how many of its runs go first. */
  ahead?: number | undefined;
  /** Why a waiting run waits, in words. */
  waitingFor?: string | undefined;
  /** Reads are executed, all else is only described. */
  dryRun?: true | undefined;
  turns: number;
  openCalls: OpenCallView[];
  usage: Usage;
  createdAt: number;
  updatedAt: number;
  endedAt?: number | undefined;
  traceId: string;
};

/**
 * A run as people see it, secrets redacted. `last`: its transcript's last message, for the arguments of its open calls.
 */
export function toView(run: Run, last: Message | undefined, redactor: Redactor): RunView {
  const {
    runId,
    agent,
    session,
    tenant,
    metadata,
    status,
    stopReason,
    error,
    turns,
    usage,
    createdAt,
    updatedAt,
    endedAt,
  } = run;
  const calls = last?.role === "assistant" ? (last.toolCalls ?? []) : [];
  const openCalls = run.calls.flatMap((call): OpenCallView[] => {
    if (call.state === "settled") return [];
    const { callId, toolCallId, tool, state, attempt, effect, decision } = call;
    const args = redactor.json(calls.find((other) => other.callId === callId)?.arguments ?? "");
    const base = { callId, toolCallId, tool, state, attempt, effect, arguments: args };
    return [
      { ...base, ...questionOf(call), ...childOf(call), ...(decision ? { decision } : {}), notBefore: dueOf(call) },
    ];
  });
  const traceId = run.trace.traceId;
  const waitingFor =
    status === "waiting" ? describeWait(run) : waitsForSession(run) ? "its turn in its session" : undefined;
  return {
    runId,
    agent,
    status,
    stopReason,
    error: redactor.value(error),
    session,
    tenant,
    ...(run.parent ? { parent: { runId: run.parent.runId, callId: run.parent.callId } } : {}),
    ...(run.paused ? { paused: redactor.value(run.paused) } : {}),
    metadata: redactor.value(metadata),
    waitingFor: redactor.value(waitingFor),
    ...(run.dryRun ? { dryRun: true } : {}),
    turns,
    openCalls: redactor.value(openCalls),
    usage,
    createdAt,
    updatedAt,
    endedAt,
    traceId,
  };
}

type AskedFields = Pick<
  OpenCallView,
  "argumentsHash" | "description" | "reason" | "askedAt" | "expiresAt" | "from" | "question" | "answerSchema"
>;

function questionOf(call: OpenCall): AskedFields {
  const { question } = call;
  const about = question && { argumentsHash: question.argumentsHash, description: question.description };
  if (call.state === "asking") return { ...about, reason: "its outcome is unknown", askedAt: call.askedAt };
  if (call.state !== "approval" && call.state !== "answer") return { ...about };
  const { askedAt, expiresAt } = call;
  const since = { askedAt, ...(expiresAt === undefined ? {} : { expiresAt }) };
  if (call.state === "approval") return { ...about, reason: question?.reason, ...since };
  const { from, answerSchema } = call;
  return {
    from,
    ...(question ? { question: question.description } : {}),
    ...(answerSchema ? { answerSchema } : {}),
    ...since,
  };
}

function childOf({ child }: OpenCall): Pick<OpenCallView, "child"> {
  return child?.since === undefined ? {} : { child: { runId: child.runId, agent: child.agent } };
}

function dueOf(call: OpenCall): number | undefined {
  if (call.state === "ready") return call.notBefore;
  if (call.state === "approval" || call.state === "answer") return call.expiresAt;
  if (call.state === "lost") return call.timeoutAt;
  return undefined;
}

const answers = { person: "an answer from a person", caller: "the result of a call by its caller" };

function describeWait(run: Run): string {
  const held =
    run.model?.hold ?? run.calls.map((call) => (call.state === "ready" ? call.hold : undefined)).find(Boolean);
  if (held) return held.detail;
  if (run.calls.some((call) => call.state === "approval" || call.state === "asking")) return "a person's decision";
  for (const from of ["person", "caller"] as const) {
    if (run.calls.some((call) => call.state === "answer" && call.from === from)) return answers[from];
  }
  if (run.calls.some((call) => call.state === "lost")) return "the outcome of a call whose worker was lost";
  if (run.calls.some((call) => call.state === "child")) return "runs that its calls have started";
  return "its next attempt";
}
