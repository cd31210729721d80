// What stands between a final answer and the end of the run. Split from transition.ts, whose invariants hold here too.

import { append, type Draft, endRun, log, oweModel } from "./change.ts";
import type { AnswerNext, RunEvent, StepTimes } from "./event.ts";
import type { RunError, StopReason } from "./run.ts";
import { owedModel } from "./transition-steps.ts";

type EventOf<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;

/** An answer without calls: waiting input starts another turn, else what `next` says follows. */
export function afterAnswer(draft: Draft, next: AnswerNext): void {
  const { run } = draft;
  if (run.pendingInput.length > 0) oweModel(draft);
  else if (next.type === "complete") endRun(draft, { status: "completed", stopReason: "answered" });
  else if (next.type === "verify") run.model = { task: "verify", attempt: 1, owedAt: run.revision };
  else {
    const reasks = run.reasks ?? 0;
    run.reasks = reasks + 1;
    const message = `The answer did not fit the output ${reasks + 1} times. Retry the run, or loosen its output.`;
    askAgain(draft, { why: "output", ...next, isLast: reasks >= next.max, reason: "bad_output", message });
  }
}

type Refusal = {
  why: "output" | "verify";
  feedback: string;
  isLast: boolean;
  reason: StopReason;
  message: string;
  times?: StepTimes | undefined;
};

/** Tells the model why its answer was not taken. The last time too, so that a retried run goes on from there. */
function askAgain(draft: Draft, { why, feedback, isLast, reason, message, times }: Refusal): void {
  const index = append(draft, { role: "user", content: feedback, origin: "run" });
  log(draft, { type: "answer_refused", why, message: index, ...times });
  if (isLast) endRun(draft, { status: "failed", stopReason: reason, error: { code: reason, message } });
  else oweModel(draft);
}

/** Applies what the agent's own check of an answer found; false if none is owed. */
export function checkAnswer(
  draft: Draft,
  event: EventOf<"answer_verified" | "answer_refused" | "verify_failed">,
): boolean {
  const { run } = draft;
  const step = owedModel(run, event.step);
  if (step?.task !== "verify") return false;
  if (event.type === "verify_failed") {
    const { error, nextAt } = event;
    log(draft, { type: "verify_failed", attempt: step.attempt, error, nextAt, ...event.times });
    if (nextAt === null) endRun(draft, { status: "failed", stopReason: "verify_failed", error: checkError(error) });
    else run.model = { task: "verify", attempt: step.attempt + 1, owedAt: run.revision, notBefore: nextAt };
    return true;
  }
  run.model = undefined;
  if (event.type === "answer_verified") {
    log(draft, { type: "answer_verified", ...event.times });
    afterAnswer(draft, { type: "complete" });
    return true;
  }
  const refusals = run.verifications ?? 0;
  run.verifications = refusals + 1;
  const message = `The answer failed its verification ${refusals + 1} times. Last: ${event.feedback.slice(0, quotedLength).toWellFormed()}`;
  const { feedback, max, times } = event;
  askAgain(draft, { why: "verify", feedback, isLast: refusals >= max, reason: "verify_failed", message, times });
  return true;
}

/** So much of a check's words is repeated in the error; the transcript has them all. */
const quotedLength = 500;

function checkError({ code, message }: RunError): RunError {
  return { code, message: `The answer could not be verified: ${message}. Fix the check, then retry the run.` };
}
