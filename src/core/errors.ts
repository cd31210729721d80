/** Every code a `DroverError` can carry. Programs may switch on it; the set is closed and pinned by a test. */
export type ErrorCode =
  | "invalid" // input of ours or of a caller does not fit its schema
  | "conflict" // the same run id was started with another input
  | "not_found" // no such run, agent or open call
  | "not_allowed" // the run or call is in a state that does not permit this
  | "too_large" // over a byte limit
  | "timeout" // a wait given a limit ran out; the run itself goes on
  | "queue_unavailable" // Redis cannot be reached or refuses writes
  | "unsupported" // a server or setting that Drover cannot work with
  | "stopped"; // the client or worker was closed

/** An error whose message says what happened and what to do next. */
export class DroverError extends Error {
  override readonly name: string = "DroverError";
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

/** Redis cannot be reached or refuses writes: what failed may work in a moment. */
export function isOutage(error: unknown): error is DroverError {
  return error instanceof DroverError && error.code === "queue_unavailable";
}

export function unknownRun(runId: string): DroverError {
  return new DroverError("not_found", `No run has the id "${runId}". "drover list" shows the ones there are.`);
}

/** A record that cannot be read, or to which no commit can be made. Holds no content. */
export class DamagedRecord extends DroverError {
  /** What is wrong with it, in words. */
  readonly why: string;

  constructor(where: string, why: string) {
    const runId = /(?:^|of )run (\S+)$|^transcript of ([^\s:]+)$/.exec(where)?.slice(1).find(Boolean);
    const otherwise = runId === undefined ? "delete it" : `delete the run: drover delete ${runId}`;
    super("invalid", `The stored record of ${where} is damaged (${why}). Restore it from a backup, or ${otherwise}`);
    this.why = why;
  }
}

/**
 * Thrown by a tool to say: nothing happened, it may be tried again.
 *
 * @param options.delayMs wait this long before the next attempt, in ms; default: the tool's own backoff.
 */
export class RetryableError extends Error {
  override readonly name: string = "RetryableError";
  readonly delayMs: number | undefined;

  constructor(message: string, options?: { delayMs?: number; cause?: unknown }) {
    super(message, options);
    this.delayMs = options?.delayMs;
  }
}

/** Thrown by a tool to say: it failed for good and had no effect. The model reads the message. */
export class PermanentError extends Error {
  override readonly name: string = "PermanentError";
}

/** Makes an `Error` of anything thrown, so that one place decides how strangers look. */
export function toError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown;
  return new Error(typeof thrown === "string" ? thrown : `a non-error was thrown: ${describe(thrown)}`);
}

function describe(value: unknown): string {
  try {
    return JSON.stringify(value)?.slice(0, 200) ?? String(value);
  } catch {
    return typeof value;
  }
}
