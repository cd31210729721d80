import { PermanentError, RetryableError, toError } from "../core/errors.ts";
import type { RunEvent } from "../core/event.ts";
import { effectiveLimits } from "../core/limits.ts";
import { findJson } from "../core/output.ts";
import { answerTextOf } from "../core/reply-text.ts";
import { nextAttemptAt } from "../core/retry.ts";
import type { StepOutcome, Verdict } from "../ports.ts";
import type { TurnStep } from "./model-step.ts";
import { abortAtDeadline, afterAbort, afterReport, type RunStepDeps, spanTimes, withFields } from "./step.ts";

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
  const event = toEvent(deps, turn, checked);
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
  const asked = verify(answerOf(run.structured, messages), {
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

/** The answer to check: the transcript's last message, as a value if it was asked for as one. */
function answerOf(structured: boolean | undefined, messages: TurnStep["transcript"]["messages"]): unknown {
  const last = messages.at(-1);
  const text = last?.role === "assistant" ? answerTextOf(last) : "";
  if (!structured) return text;
  const found = findJson(text);
  return found.found ? found.value : text;
}

function toEvent(deps: RunStepDeps, { run, agent, context }: TurnStep, checked: Checked): VerifyEvent {
  const { step } = context;
  const refused = (feedback: string): VerifyEvent => ({
    type: "answer_refused",
    step,
    feedback,
    max: effectiveLimits(agent.limits, run).maxReasks ?? 0,
  });
  const failed = (code: string, message: string, nextAt: number | null = null): VerifyEvent => ({
    type: "verify_failed",
    step,
    error: { code, message },
    nextAt,
  });
  if (checked.type === "timeout") {
    return failed("timeout", `the check did not finish within ${agent.answers.verifyTimeoutMs} ms`);
  }
  if (checked.type === "threw") {
    const { message } = toError(checked.thrown);
    if (checked.thrown instanceof RetryableError) {
      const { delayMs } = checked.thrown;
      const attempt = { attempt: run.model?.attempt ?? 1, at: deps.clock.now(), jitter: deps.ids.random() };
      return failed("retryable", message, nextAttemptAt(checkRetry, { ...attempt, retryAfterMs: delayMs }));
    }
    // An assertion that failed says what is wrong with the answer.
    return checked.thrown instanceof PermanentError ? failed("threw", message) : refused(toFeedback(message));
  }
  const { verdict } = checked;
  if (verdict === true) return { type: "answer_verified", step };
  if (verdict === false) return refused(toFeedback(undefined));
  if (typeof verdict === "string") return refused(toFeedback(verdict));
  if (typeof verdict === "object" && verdict !== null && typeof verdict.ok === "boolean") {
    return verdict.ok ? { type: "answer_verified", step } : refused(toFeedback(verdict.feedback));
  }
  return failed("bad_verdict", `the check gave ${String(verdict)}, expected true, false, text or { ok, feedback }`);
}

function toFeedback(feedback: string | undefined): string {
  const why = feedback === undefined || feedback.trim() === "" ? "it did not pass the check" : feedback;
  return `Your answer was checked and not accepted: ${why}\nCorrect it and answer again.`;
}
