import { PermanentError, RetryableError } from "../core/errors.ts";
import type { ToolOutcome, ToolRequest } from "../ports.ts";
import type { Tool, ToolContext } from "./define-tool.ts";
import { reasonOf, threwMessage, timeoutMessage, toSeconds } from "./messages.ts";
import { renderResult } from "./render.ts";

/** Whether a started attempt may be made again: nothing happens twice that must not (invariant 4). */
export function isRepeatable(tool: Tool): boolean {
  return tool.effect === "read" || tool.idempotent;
}

type Ended = { type: "returned"; value: unknown } | { type: "threw"; thrown: unknown } | { type: "abandoned" };
type AbortCause = "timeout" | "aborted";

/**
 * Runs a tool once, with arguments that were checked. Never rejects. A tool that ignores its signal is left alone once
 * the signal has fired: whatever it brings later is discarded.
 */
export async function runTool(tool: Tool, args: unknown, request: ToolRequest): Promise<ToolOutcome> {
  if (request.signal.aborted) {
    return { type: "retry", message: `"${tool.name}" was stopped before it began; nothing happened.`, delayMs: 0 };
  }
  const controller = new AbortController();
  const abandoned = Promise.withResolvers<Ended>();
  let cause: AbortCause | undefined;
  const abort = (why: AbortCause, reason: unknown): void => {
    if (cause) return;
    cause = why;
    controller.abort(reason);
    // A tool that answers its signal at once is heard: it may say that nothing happened.
    setImmediate(abandoned.resolve, { type: "abandoned" });
  };
  const onAbort = (): void => abort("aborted", request.signal.reason);
  request.signal.addEventListener("abort", onAbort, { once: true });
  const timer = setTimeout(() => {
    abort("timeout", new DOMException(`no answer within ${toSeconds(tool.timeoutMs)}`, "TimeoutError"));
  }, tool.timeoutMs);
  const progress = makeProgress(request);
  try {
    const context = makeContext(request, controller.signal, progress.tell);
    const ended = await Promise.race([invoke(tool, args, context), abandoned.promise]);
    return toOutcome(tool, ended, cause);
  } finally {
    progress.stop();
    clearTimeout(timer);
    request.signal.removeEventListener("abort", onAbort);
  }
}

async function invoke(tool: Tool, args: unknown, context: ToolContext): Promise<Ended> {
  try {
    return { type: "returned", value: await tool.execute(args, context) };
  } catch (thrown) {
    return { type: "threw", thrown };
  }
}

function makeContext(request: ToolRequest, signal: AbortSignal, progress: (text: string) => void): ToolContext {
  const { runId, call, turn, attempt, idempotencyKey, session, metadata, logger } = request;
  return {
    runId,
    callId: call.callId,
    turn,
    attempt,
    idempotencyKey,
    session,
    metadata,
    signal,
    log: logger,
    progress,
  };
}

/** A late or broken listener must not reach the tool, nor a late tool the listener. */
function makeProgress(request: ToolRequest): { tell: (text: string) => void; stop: () => void } {
  let open = true;
  return {
    tell: (text) => {
      if (!open) return;
      try {
        request.onProgress(String(text));
      } catch (error) {
        request.logger.warn({ error: reasonOf(error), callId: request.call.callId }, "progress could not be told");
      }
    },
    stop: () => {
      open = false;
    },
  };
}

function toOutcome(tool: Tool, ended: Ended, cause: AbortCause | undefined): ToolOutcome {
  if (ended.type === "returned") return { type: "ok", content: renderResult(ended.value) };
  if (ended.type === "threw") {
    const { thrown } = ended;
    if (thrown instanceof RetryableError) {
      const delayMs = toDelay(thrown.delayMs);
      return { type: "retry", message: reasonOf(thrown), ...(delayMs === undefined ? {} : { delayMs }) };
    }
    if (thrown instanceof PermanentError) {
      return { type: "failed", code: "threw", message: threwMessage(tool.name, reasonOf(thrown)) };
    }
  }
  if (cause === "timeout") return timedOut(tool);
  if (cause === "aborted") return aborted(tool);
  const reason = ended.type === "threw" ? reasonOf(ended.thrown) : "it ended without a result";
  if (isRepeatable(tool)) {
    return { type: "failed", code: "threw", message: threwMessage(tool.name, reason), trouble: true };
  }
  return { type: "unknown", code: "threw", message: `it failed after it had started: ${reason}` };
}

function timedOut(tool: Tool): ToolOutcome {
  if (isRepeatable(tool)) {
    return { type: "failed", code: "timeout", message: timeoutMessage(tool.name, tool.timeoutMs), trouble: true };
  }
  return { type: "unknown", code: "timeout", message: `no answer within ${toSeconds(tool.timeoutMs)}` };
}

/** Stopped by us: cancelled, or the step was lost. A repeatable tool simply runs again, if it is still wanted. */
function aborted(tool: Tool): ToolOutcome {
  if (isRepeatable(tool)) return { type: "retry", message: `"${tool.name}" was stopped`, delayMs: 0 };
  return { type: "unknown", code: "aborted", message: "it was stopped while it ran" };
}

function toDelay(delayMs: unknown): number | undefined {
  return typeof delayMs === "number" && Number.isFinite(delayMs) && delayMs >= 0 ? delayMs : undefined;
}
