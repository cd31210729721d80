import { z } from "zod";
import {
  type BreakerPolicy,
  type Effect,
  type Limits,
  type RateLimit,
  type RetryPolicy,
  rateSchema,
  type ToolSpec,
} from "../core/agent.ts";
import type { ChildFailurePolicy } from "../core/child.ts";
import { defaultMaxResultTokens } from "../core/defaults.ts";
import { DroverError, PermanentError } from "../core/errors.ts";
import type { InputMessage } from "../core/message.ts";
import type { Logger } from "../ports.ts";
import type { JsonSchema } from "./json-schema.ts";
import { type ToolParameters, toParameters, toValueSchema } from "./parameters.ts";

/** What a tool is given beside its arguments. */
export type ToolContext = {
  runId: string;
  /** Our name for the call, unique in the run. */
  callId: string;
  turn: number;
  /** From 1. */
  attempt: number;
  /** The same for every attempt of one call: hand it to whatever can recognise a repeated request. */
  idempotencyKey: string;
  session: string | undefined;
  metadata: Record<string, unknown>;
  /** Aborts at the tool's timeout, when the run is cancelled and when the step was lost. */
  signal: AbortSignal;
  log: Logger;
  /** Tells whoever watches the run how far the tool is. Best effort, never throws. */
  progress(text: string): void;
};

/** Who must say yes before a call runs. A predicate decides by the arguments; one that throws asks. */
export type Approval<Arguments> = "always" | "never" | ((args: Arguments) => boolean);

/** What `execute` and a predicate get: a zod schema's output; for a JSON Schema any object. */
export type ArgumentsOf<P> = P extends z.core.$ZodType ? z.output<P> : Record<string, unknown>;

/**
 * A tool.
 * - `name`: letters, digits, `-`, `_`, `.` and `/`, at most 128;
 * - `description`: what it does, what each parameter means, its format, one example;
 * - `parameters`: a zod object schema, or a JSON Schema of type object;
 * - `execute`: returns any JSON value, text or content parts. `RetryableError`: nothing happened, may be tried again;
 *   `PermanentError`: failed for good, without an effect. An unmarked error of a `read` or idempotent tool is permanent;
 *   of another tool its outcome is unknown;
 * - `effect`: default "write";
 * - `idempotent`: honours `ctx.idempotencyKey`, so it may run again after a lost worker; default false;
 * - `approval`: default "always" for an irreversible tool, else "never";
 * - `approvalExpiresMs`: a call that nobody approved by then is not run; default: it waits for ever;
 * - `timeoutMs`: of one attempt, default 60,000;
 * - `retry`: after a `RetryableError`, default 3 attempts in all, the first wait 500 ms;
 * - `queue`: runs on workers of this queue only;
 * - `maxResultTokens`: a longer result is cut for the model and kept whole beside the transcript; default 2,000;
 * - `polling`: the same call again is no repetition;
 * - `rate`, `concurrency`: hold over all workers; a call that must wait holds no worker;
 * - `breaker`: default 10 failures in a row switch the tool off for 30 s, over all workers; false: never;
 * - `fallback`: name of the tool that the model is offered while this one is off;
 * - `describe`: what a dry run tells of a call instead of executing it; default: its name and arguments.
 */
export type ToolOptions<P extends z.core.$ZodType | JsonSchema> = {
  name: string;
  description: string;
  parameters: P;
  execute: (args: ArgumentsOf<P>, context: ToolContext) => unknown;
  effect?: Effect | undefined;
  idempotent?: boolean | undefined;
  approval?: Approval<ArgumentsOf<P>> | undefined;
  approvalExpiresMs?: number | undefined;
  timeoutMs?: number | undefined;
  retry?: Partial<RetryPolicy> | undefined;
  queue?: string | undefined;
  maxResultTokens?: number | undefined;
  polling?: boolean | undefined;
  rate?: RateLimit | undefined;
  concurrency?: number | undefined;
  breaker?: Partial<BreakerPolicy> | false | undefined;
  fallback?: string | undefined;
  describe?: ((args: ArgumentsOf<P>) => string) | undefined;
};

/**
 * A tool whose calls a person answers, by `RunHandle.answer`; nothing is executed.
 * - `name`, `description`, `parameters`, `polling`: as of other tools;
 * - `answer`: what the answer must be, a zod schema or a JSON Schema, checked as JSON Schema; default: anything;
 * - `expiresMs`: a question that nobody answered by then is given up, and the model told so; default: it waits for ever;
 * - `describe`: the question in words; default: the tool's name and the arguments.
 */
export type AnsweredToolOptions<P extends z.core.$ZodType | JsonSchema> = Pick<
  ToolOptions<P>,
  "name" | "description" | "parameters" | "polling" | "describe"
> & {
  answeredBy: "person";
  answer?: z.core.$ZodType | JsonSchema | undefined;
  expiresMs?: number | undefined;
};

/** How a tool hands its calls to another agent; see `agentTool`. */
export type ChildSettings = {
  readonly agent: string;
  readonly toInput: (args: unknown) => string | InputMessage[];
  readonly onFailure: ChildFailurePolicy;
  readonly retries: number;
  readonly limits: Limits | undefined;
  readonly maxDepth: number;
};

/** A checked tool with every default filled in. Made by `defineTool` and `agentTool` only. */
export type Tool = {
  readonly name: string;
  readonly description: string;
  readonly parameters: ToolParameters;
  readonly effect: Effect;
  readonly idempotent: boolean;
  readonly approval: Approval<unknown>;
  readonly approvalExpiresMs: number | undefined;
  readonly timeoutMs: number;
  readonly retry: RetryPolicy;
  readonly queue: string | undefined;
  readonly maxResultTokens: number;
  readonly polling: boolean;
  readonly rate: RateLimit | undefined;
  readonly concurrency: number | undefined;
  /** Undefined: never switched off. */
  readonly breaker: BreakerPolicy | undefined;
  readonly fallback: string | undefined;
  readonly describe: ((args: unknown) => string) | undefined;
  /** Undefined: it is executed. */
  readonly answeredBy: "person" | undefined;
  /** What an answer must be; undefined: anything. */
  readonly answer: ToolParameters | undefined;
  readonly expiresMs: number | undefined;
  /** Undefined: its calls are no runs of their own. */
  readonly child: ChildSettings | undefined;
  /** Fails for a tool that is answered, or whose calls are runs. */
  readonly execute: (args: unknown, context: ToolContext) => unknown;
};

/** The longest wait a timer of Node can hold, about 24.8 days. */
const maxTimerMs = 2 ** 31 - 1;
const tenYearsMs = 10 * 365 * 24 * 3_600_000;

const breakerSchema = z.strictObject({
  failures: z.int().min(1).max(1_000_000).default(10),
  openMs: z.int().min(1).max(maxTimerMs).default(30_000),
});
const isFunction = (value: unknown): boolean => typeof value === "function";
const shared = {
  name: z
    .string()
    .regex(/^[A-Za-z0-9_./-]{1,128}$/, "expected 1 to 128 letters, digits, hyphens, underscores, dots or slashes"),
  description: z.string(),
  parameters: z.unknown(),
  polling: z.boolean().default(false),
  describe: z.custom<NonNullable<Tool["describe"]>>(isFunction, "expected a function").optional(),
};
const executedSchema = z.strictObject({
  ...shared,
  execute: z.custom<Tool["execute"]>(isFunction, 'expected a function, or answeredBy: "person" in its place'),
  effect: z.enum(["read", "write", "irreversible"]).default("write"),
  idempotent: z.boolean().default(false),
  approval: z
    .custom<Approval<unknown>>(
      (value) => value === "always" || value === "never" || isFunction(value),
      'expected "always", "never" or a function of the arguments',
    )
    .optional(),
  approvalExpiresMs: z.int().min(1).max(tenYearsMs).optional(),
  timeoutMs: z.int().min(1).max(maxTimerMs).default(60_000),
  retry: z
    .strictObject({
      attempts: z.int().min(1).max(1_000).default(3),
      delayMs: z.int().min(0).max(maxTimerMs).default(500),
    })
    .default({ attempts: 3, delayMs: 500 }),
  queue: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 letters, digits, hyphens or underscores")
    .optional(),
  maxResultTokens: z.int().min(100).max(1_000_000).default(defaultMaxResultTokens),
  rate: rateSchema.optional(),
  concurrency: z.int().min(1).max(1_000_000).optional(),
  breaker: z.union([z.literal(false), breakerSchema]).prefault({}),
  fallback: z.string().min(1).max(128).optional(),
  // What a tool has that was made by this function and is given to it once more.
  answeredBy: z.undefined().optional(),
  answer: z.undefined('expected nothing without answeredBy: "person"').optional(),
  expiresMs: z.undefined('expected nothing without answeredBy: "person"').optional(),
  child: z.undefined("expected nothing: use agentTool").optional(),
});
const answeredSchema = z.strictObject({
  ...shared,
  answeredBy: z.literal("person", 'expected "person"'),
  answer: z.unknown().optional(),
  expiresMs: z.int().min(1).max(tenYearsMs).optional(),
});
/** What an answered tool has in place of settings for executing it. */
const notExecuted = {
  effect: "read",
  approval: "never",
  breaker: false,
  execute: (): never => {
    throw new PermanentError("a person answers this tool; it cannot be executed");
  },
};

/**
 * Makes a tool. Everything is checked at once.
 *
 * @throws DroverError "invalid" naming every problem.
 */
export function defineTool<P extends z.core.$ZodType | JsonSchema>(options: AnsweredToolOptions<P>): Tool;
export function defineTool<P extends z.core.$ZodType | JsonSchema>(options: ToolOptions<P>): Tool;
export function defineTool(options: unknown): Tool {
  const given = (options ?? {}) as { [field: string]: unknown };
  const problems: string[] = [];
  const checked = checkOptions(options, problems);
  const parameters = trySchema("parameters", () => toParameters(given.parameters), problems);
  const hasAnswer = given.answeredBy !== undefined && given.answer !== undefined;
  const answer = hasAnswer ? trySchema("answer", () => toValueSchema(given.answer), problems) : undefined;
  if (!checked || !parameters || problems.length > 0) {
    const { name } = given;
    const which = typeof name === "string" && name !== "" ? ` "${name}"` : "";
    throw new DroverError("invalid", `The tool${which} cannot be used: ${problems.join("; ")}.`);
  }
  const { approval, breaker, ...rest } = checked;
  return Object.freeze({
    approvalExpiresMs: undefined,
    queue: undefined,
    rate: undefined,
    concurrency: undefined,
    fallback: undefined,
    describe: undefined,
    answeredBy: undefined,
    expiresMs: undefined,
    ...rest,
    child: undefined,
    parameters,
    approval: approval ?? (rest.effect === "irreversible" ? "always" : "never"),
    breaker: breaker === false ? undefined : breaker,
    answer,
  });
}

type Checked = Omit<z.output<typeof executedSchema>, "answeredBy" | "answer" | "expiresMs"> &
  Partial<Pick<Tool, "answeredBy" | "expiresMs">>;

/** The options of either kind of tool, with the settings of an executed one. */
function checkOptions(options: unknown, problems: string[]): Checked | undefined {
  const isAnswered = (options as { answeredBy?: unknown } | undefined)?.answeredBy !== undefined;
  if (!isAnswered) {
    const executed = executedSchema.safeParse(options);
    problems.push(...(executed.error?.issues ?? []).map((issue) => toProblem(issue, "unknown option")));
    return executed.data as Checked | undefined;
  }
  const answered = answeredSchema.safeParse(options);
  problems.push(
    ...(answered.error?.issues ?? []).map((issue) => toProblem(issue, "a tool that a person answers has no option")),
  );
  if (!answered.success) return undefined;
  const { answeredBy, expiresMs, answer: _answer, ...own } = answered.data;
  return { ...executedSchema.parse({ ...own, ...notExecuted }), answeredBy, expiresMs };
}

function toProblem(issue: z.core.$ZodIssue, unknownOption: string): string {
  if (issue.code === "unrecognized_keys") {
    return `${unknownOption} ${issue.keys.map((key) => `"${key}"`).join(", ")}`;
  }
  const path = issue.path.join(".");
  return path === "" ? issue.message : `${path}: ${issue.message}`;
}

function trySchema(option: string, read: () => ToolParameters, problems: string[]): ToolParameters | undefined {
  try {
    return read();
  } catch (error) {
    problems.push(`${option}: ${(error as Error).message}`);
    return undefined;
  }
}

/** The tool as the model sees it. */
export function toolSpec(tool: Tool): ToolSpec {
  return { name: tool.name, description: tool.description, parameters: tool.parameters.schema };
}
