import { PermanentError, RetryableError, toError } from "../core/errors.ts";
import type { RunEvent } from "../core/event.ts";
import { findJson } from "../core/output.ts";
import { answerTextOf } from "../core/reply-text.ts";
import { nextAttemptAt } from "../core/retry.ts";
import type { StepOutcome, Verdict } from "../ports.ts";
import {
  abortAtDeadline,
  afterAbort,
  afterReport,
  type RunStepDeps,
  spanTimes,
  stepTimes,
  withFields,
} from "./step.ts";
import type { TurnStep } from "./turn-step.ts";

type VerifyEvent = Extract<RunEvent, { type: "answer_verified" | "answer_refused" | "verify_failed" }>;

/** How often a check that failed for the moment is made. */
const checkRetry = { attempts: 3, delayMs: 1_000 };

/** The agent's own check of a final answer: a step of its own, made again if its worker is lost (features H18). */
export async function performVerify(deps: RunStepDeps, turn: TurnStep): Promise<StepOutcome> {
  const { run, context } = turn;
  const { step, active } = context;
  const attempt = run.model?.attempt ?? 1;
  const calledAt = deps.clock.now();
  const stopTimer = abortAtDeadline(deps, run, active);
  const checked = await deps.telemetry
    .withStep(run, { kind: "verify", turn: run.turns, attempt, owedAt: step.owedAt }, () => check(deps, turn))
    .finally(stopTimer);
  const answeredAt = deps.clock.now();
  if (active.aborted()) return afterAbort(deps, run, context);
  const event = { ...toEvent(deps, turn, checked), times: stepTimes(context, { calledAt, answeredAt }) };
  const result = await deps.advance(run.runId, event, { head: run, pipeline: true });
  if (result.change) {
    deps.telemetry.recordStep({
      kind: "verify",
      owedAt: step.owedAt,
      run: result.change.run,
      turn: run.turns,
      attempt,
      ...(event.type === "answer_refused" ? { feedback: event.feedback, errorType: "answer_refused" } : {}),
      ...(event.type === "verify_failed" ? { errorType: event.error.code } : {}),
      ...spanTimes(context, { calledAt, answeredAt, endedAt: deps.clock.now() }),
    });
  }
  return afterReport(deps, result, context);
}

type Checked = { type: "verdict"; verdict: Verdict } | { type: "threw"; thrown: unknown } | { type: "timeout" };

async function check(deps: RunStepDeps, { run, agent, transcript, context }: TurnStep): Promise<Checked> {
  const { verify, verifyTimeoutMs } = agent.answers;
  // Deployed without its check meanwhile: there is nothing to ask.
  if (!verify) return { type: "verdict", verdict: true };
  const { messages } = transcript;
  const { runId, session, metadata, turns } = run;
  const timeout = AbortSignal.timeout(verifyTimeoutMs);
  const signal = AbortSignal.any([context.active.signal, timeout]);
  const log = withFields(deps.logger, { runId, turn: turns, traceId: run.trace.traceId });
  const abandoned = new Promise<Checked>((resolve) => {
    const give = (): void => resolve({ type: "timeout" });
    if (signal.aborted) give();
    else signal.addEventListener("abort", () => setImmediate(give), { once: true });
  });
  const asked = verify(answerOf(agent, messages), {
    runId,
    turn: turns,
    attempt: run.model?.attempt ?? 1,
    session,
    metadata,
    messages,
    signal,
    log,
  }).then(
    (verdict): Checked => ({ type: "verdict", verdict }),
    (thrown: unknown): Checked => ({ type: "threw", thrown }),
  );
  return Promise.race([asked, abandoned]);
}

/** The answer to check: the transcript's last message, as a value if the agent, as it is now, asks for one. */
function answerOf({ answers }: TurnStep["agent"], messages: TurnStep["transcript"]["messages"]): unknown {
  const last = messages.at(-1);
  const text = last?.role === "assistant" ? answerTextOf(last) : "";
  if (!answers.parseOutput) return text;
  const found = findJson(text);
  return found.found ? found.value : text;
}

function toEvent(deps: RunStepDeps, turn: TurnStep, checked: Checked): VerifyEvent {
  const { answers } = turn.agent;
  if (checked.type === "threw") return toEventOfThrown(deps, turn, checked.thrown);
  if (checked.type === "timeout") {
    return failed(turn, "timeout", `the check did not finish within ${answers.verifyTimeoutMs} ms`);
  }
  const verdict = readVerdict(checked.verdict);
  if (!verdict) {
    return failed(turn, "bad_verdict", "the check gave something else than true, false, text or { ok, feedback }");
  }
  return verdict.ok ? { type: "answer_verified", step: turn.context.step } : refused(turn, verdict.feedback);
}

function toEventOfThrown(deps: RunStepDeps, turn: TurnStep, thrown: unknown): VerifyEvent {
  const { message } = toError(thrown);
  if (thrown instanceof PermanentError) return failed(turn, "threw", message);
  // An assertion that failed says what is wrong with the answer.
  if (!(thrown instanceof RetryableError)) return refused(turn, message);
  const attempt = turn.run.model?.attempt ?? 1;
  const failedAt = { attempt, at: deps.clock.now(), jitter: deps.ids.random(), retryAfterMs: thrown.delayMs };
  return failed(turn, "retryable", message, nextAttemptAt(checkRetry, failedAt));
}

function readVerdict(verdict: Verdict): { ok: boolean; feedback?: string | undefined } | undefined {
  if (typeof verdict === "boolean") return { ok: verdict };
  if (typeof verdict === "string") return { ok: false, feedback: verdict };
  if (typeof verdict !== "object" || typeof verdict?.ok !== "boolean") return undefined;
  const { ok, feedback = "" } = verdict;
  return typeof feedback === "string" ? { ok, feedback } : undefined;
}

function refused({ limits, context }: TurnStep, feedback: string | undefined): VerifyEvent {
  return { type: "answer_refused", step: context.step, feedback: toFeedback(feedback), max: limits.maxReasks };
}

function failed({ context }: TurnStep, code: string, message: string, nextAt: number | null = null): VerifyEvent {
  const error = { code, message: shorten(message, mostInError) };
  return { type: "verify_failed", step: context.step, error, nextAt };
}

function toFeedback(feedback: string | undefined): string {
  const why = feedback === undefined || feedback.trim() === "" ? "it did not pass the check" : feedback;
  return tell(shorten(why, mostFeedback));
}

/** What a check says goes into the transcript, what its failure says into the run's head: neither is without end. */
const mostFeedback = 20_000;
const mostInError = 1_000;

function shorten(text: string, most: number): string {
  return (
    text.length > most ? `${text.slice(0, most)}… [cut here; ${text.length} characters in all]` : text
  ).toWellFormed();
}

function tell(why: string): string {
  return `Your answer was checked and not accepted: ${why}\nCorrect it and answer again.`;
}
