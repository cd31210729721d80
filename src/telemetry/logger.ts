import { type DestinationStream, pino } from "pino";
import { z } from "zod";
import { type LogLevel, logLevels } from "../core/defaults.ts";
import type { Logger } from "../ports.ts";

/** Levels of `DROVER_LOG_LEVEL`, quietest last. */
export type { LogLevel } from "../core/defaults.ts";
export const logLevelSchema: z.ZodType<LogLevel> = z.enum(logLevels);

/** Field names whose values are never printed, at the top of a line's fields and one or two levels below. */
const secretNames = [
  "apiKey",
  "apiKeys",
  "api_key",
  "authorization",
  "Authorization",
  "cookie",
  "password",
  "secret",
  "token",
  "accessToken",
];
const secretPaths = secretNames.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]);

export type LoggerOptions = {
  /** Default: `info`. */
  level?: LogLevel | undefined;
  /** Where lines go; default: standard error, so that what a command prints stays clean. */
  destination?: DestinationStream | undefined;
};

/**
 * Logs one JSON object a line: `level`, `time` (ISO 8601), the fields as given (run id, turn, trace id), `message`.
 *
 * What must not leak does not: fields named like secrets are replaced, credentials in URLs are cut, and an error is
 * printed as code and message alone (an error of a Redis client carries the arguments of its command, so content).
 */
export function createLogger(options: LoggerOptions = {}): Logger {
  const settings = {
    level: options.level ?? "info",
    base: null,
    messageKey: "message",
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: secretPaths, censor: "[redacted]" },
  };
  const out = pino(settings, options.destination ?? pino.destination(2));
  const write =
    (level: "debug" | "info" | "warn" | "error") =>
    (fields: Record<string, unknown>, message: string): void => {
      if (out.isLevelEnabled(level)) out[level](clean(fields, 0) as Record<string, unknown>, cutCredentials(message));
    };
  return { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
}

/** A logger that says nothing. */
export function createSilentLogger(): Logger {
  const nothing = (): void => {};
  return { debug: nothing, info: nothing, warn: nothing, error: nothing };
}

/** Fields deeper than this are not printed: log lines are small. */
const deepest = 4;

/** Replaces errors by code and message and cuts credentials out of URLs, without touching the caller's objects. */
function clean(value: unknown, depth: number): unknown {
  if (typeof value === "string") return cutCredentials(value);
  if (value instanceof Error) {
    const code = "code" in value && typeof value.code === "string" ? { code: value.code } : {};
    return { ...code, message: cutCredentials(value.message) };
  }
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth >= deepest) return "[deeper]";
  if (Array.isArray(value)) return value.map((item) => clean(item, depth + 1));
  const entries = Object.entries(value).map(([key, item]) => [key, clean(item, depth + 1)]);
  return Object.fromEntries(entries);
}

/** `redis://user:secret@host` becomes `redis://[redacted]@host`. */
function cutCredentials(text: string): string {
  return text.replace(/([a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi, "$1[redacted]@");
}
