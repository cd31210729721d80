import { type DestinationStream, pino } from "pino";
import { z } from "zod";
import { type LogLevel, logLevels } from "../core/defaults.ts";
import { createRedactor, type Redactor } from "../core/redact.ts";
import type { Logger } from "../ports.ts";

/** Levels of `DROVER_LOG_LEVEL`, quietest last. */
export type { LogLevel } from "../core/defaults.ts";
export const logLevelSchema: z.ZodType<LogLevel> = z.enum(logLevels);

export type LoggerOptions = {
  /** Default: `info`. */
  level?: LogLevel | undefined;
  /** Where lines go; default: standard error, so that what a command prints stays clean. */
  destination?: DestinationStream | undefined;
  /** Default: one that knows the usual kinds of secrets. */
  redactor?: Redactor | undefined;
};

/**
 * Logs one JSON object a line: `level`, `time` (ISO 8601), the fields as given (run id, turn, trace id), `message`.
 *
 * What must not leak does not: see `redactLogs`.
 */
export function createLogger(options: LoggerOptions = {}): Logger {
  const settings = {
    level: options.level ?? "info",
    base: null,
    messageKey: "message",
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  const out = pino(settings, options.destination ?? pino.destination(2));
  const logger = toLogger(options.redactor ?? createRedactor(), (level, line) => {
    if (out.isLevelEnabled(level)) out[level](...line());
  });
  return { ...logger, isLevelEnabled: (level) => out.isLevelEnabled(level) };
}

/**
 * The same logger, given only what may be shown: secrets are redacted in messages and fields, and an error is code and
 * message alone (an error of a Redis client carries the arguments of its command, so content). A line that the logger
 * throws at is lost, and nothing else: the first is told as a warning of the process.
 */
export function redactLogs(logger: Logger, redactor: Redactor): Logger {
  let told = false;
  const lose = (): void => {
    if (!told) process.emitWarning("The logger given to Drover fails; its lines are lost.", { code: "DROVER_LOGGER" });
    told = true;
  };
  const redacted = toLogger(redactor, (level, line) => {
    try {
      const ended: unknown = logger[level](...line());
      if (ended instanceof Promise) ended.catch(lose);
    } catch {
      lose();
    }
  });
  if (typeof logger.isLevelEnabled !== "function") return redacted;
  return {
    ...redacted,
    isLevelEnabled(level) {
      try {
        return logger.isLevelEnabled?.(level) !== false;
      } catch {
        return true;
      }
    },
  };
}

type Level = "debug" | "info" | "warn" | "error";
/** Made only if it is written. */
type Line = () => [fields: Record<string, unknown>, message: string];

function toLogger(redactor: Redactor, put: (level: Level, line: Line) => void): Logger {
  const write =
    (level: Level) =>
    (fields: Record<string, unknown>, message: string): void =>
      put(level, () => [redactor.value(flatten(fields, 0) as Record<string, unknown>), redactor.text(message)]);
  return { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
}

/** A logger that says nothing. */
export function createSilentLogger(): Logger {
  const nothing = (): void => {};
  return { debug: nothing, info: nothing, warn: nothing, error: nothing };
}

/** Fields deeper than this are not printed: log lines are small. */
const deepest = 4;

/** Replaces errors by code and message, without touching the caller's objects. */
function flatten(value: unknown, depth: number): unknown {
  if (value instanceof Error) {
    const code = "code" in value && typeof value.code === "string" ? { code: value.code } : {};
    return { ...code, message: value.message };
  }
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth >= deepest) return "[deeper]";
  if (Array.isArray(value)) return value.map((item) => flatten(item, depth + 1));
  if ("toJSON" in value && typeof value.toJSON === "function") return flatten(value.toJSON(), depth + 1);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, flatten(item, depth + 1)]));
}
