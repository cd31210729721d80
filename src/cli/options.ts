import { readFileSync } from "node:fs";
import { userInfo } from "node:os";
import { type Command, InvalidArgumentError } from "commander";
import { type Limits, limitsSchema } from "../core/agent.ts";
import { DroverError } from "../core/errors.ts";

// Parsers of arguments shared by several commands. Commander adds the option's name to what they say.

/** A whole number within bounds. */
export function toInteger(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`);
  };
}

/** One of `values`. */
export function toOneOf<T extends string>(values: readonly T[]): (text: string) => T {
  return (text) => {
    const value = values.find((one) => one === text);
    if (value !== undefined) return value;
    throw new InvalidArgumentError(`Expected one of ${values.join(", ")}.`);
  };
}

/** Collects `key=value` pairs; may be given several times. */
export function toPairs(text: string, earlier: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("Expected key=value.");
  return { ...earlier, [text.slice(0, at)]: text.slice(at + 1) };
}

const unitsMs: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A date, or a time ago, in epoch ms. */
export function toTime(text: string): number {
  const ago = /^(\d{1,9})([smhd])$/.exec(text);
  if (ago) return Date.now() - Number(ago[1]) * (unitsMs[ago[2] ?? ""] ?? 0);
  const at = /^\d{4}-/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(at)) return at;
  throw new InvalidArgumentError(
    "Expected a date such as 2026-11-30T12:00:00Z, or a time ago such as 90s, 15m, 2h, 7d.",
  );
}

/** Collects values of an option that may be given several times. */
export function toList(text: string, earlier: readonly string[] = []): string[] {
  return [...earlier, text];
}

type LimitOptions = { maxTurns?: number; maxTokens?: number; maxCostUsd?: number; deadlineMs?: number };

/** Adds the four limits of a run as options. */
export function addLimits(command: Command): Command {
  const top = Number.MAX_SAFE_INTEGER;
  return command
    .option("--max-turns <n>", "model answers at most", toInteger(1, 100_000))
    .option("--max-tokens <n>", "input and output tokens at most, over the whole run", toInteger(1, top))
    .option("--max-cost-usd <usd>", "cost at most; needs a price on the model", Number)
    .option("--deadline-ms <ms>", "time at most", toInteger(1, top));
}

/** The limits among parsed options, undefined when there are none. Throws DroverError "invalid". */
export function pickLimits(options: LimitOptions): Limits | undefined {
  const { maxTurns, maxTokens, maxCostUsd, deadlineMs } = options;
  const limits = { maxTurns, maxTokens, maxCostUsd, deadlineMs };
  if (Object.values(limits).every((value) => value === undefined)) return undefined;
  const parsed = limitsSchema.safeParse(limits);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
  throw new DroverError("invalid", `these limits cannot be used: ${problems.join("; ")}`);
}

/** Who gives an order, unless told otherwise: the user this process runs as. */
export function whoAmI(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}

/** Text of an argument; `-` stands for standard input. */
export function readInput(argument: string): string {
  if (argument !== "-") return argument;
  return readFileSync(process.stdin.fd, "utf8").trimEnd();
}
