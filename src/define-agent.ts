import { z } from "zod";
import { type AgentDefinition, type Limits, limitsSchema } from "./core/agent.ts";
import { canonical } from "./core/canonical.ts";
import { DroverError } from "./core/errors.ts";
import { isForbidden, type Policy, type Ruling, rulingOn } from "./core/policy.ts";
import type { WindowSettings } from "./core/window.ts";
import { hashText } from "./engine/hash.ts";
import type { AgentCode, ModelGate, ModelSpec, Verdict, VerifyContext } from "./ports.ts";
import { tokenCounter } from "./tokens/token-counter.ts";
import { type Tool, toolSpec } from "./tools/define-tool.ts";
import { type ToolParameters, toParameters } from "./tools/parameters.ts";
import { createToolCaller } from "./tools/tool-caller.ts";

/** What an output option stands for: a zod schema's output; for a JSON Schema any object. */
export type OutputOf<O> = O extends z.core.$ZodType ? z.output<O> : O extends object ? Record<string, unknown> : string;

/** How the older part of a transcript is condensed. `model`: default the agent's own. */
export type SummariseOptions = { model?: ModelSpec | undefined; instructions?: string | undefined };

/**
 * How the history is shown to the model.
 * - `budgetTokens`: of a whole request, room for the answer included; default: everything is sent until the server
 *   says that it is too long;
 * - `lastTurns`: sent in full once the budget is passed, default 6;
 * - `remindEvery`: turns between restatements of the goal in what is sent, default 3; 0: never;
 * - `summarise`: default true: the part before is condensed by a step of its own; false: it is left out.
 */
export type WindowOptions = {
  budgetTokens?: number | undefined;
  lastTurns?: number | undefined;
  remindEvery?: number | undefined;
  summarise?: boolean | SummariseOptions | undefined;
};

/**
 * An agent.
 * - `name`: what producers start it by; letters, digits, `-`, `_`, `.`;
 * - `instructions`: sent first with every model call, never part of the transcript;
 * - `model`: `openai("...")`, or a scripted model in tests;
 * - `limits`: see `Limits`; `maxTurns` defaults to 15;
 * - `output`: a zod object schema, or a JSON Schema of type object: the final answer is JSON that fits it;
 * - `verify`: checks each final answer in a step of its own; true: it stands; text: what the model is told. May run again
 *   after a lost worker;
 * - `verifyTimeoutMs`: default 60,000;
 * - `window`: see `WindowOptions`;
 * - `request`: further fields of the model request, under the server's own names (`temperature`, `max_tokens`, ...);
 * - `version`: yours, for reading traces and records.
 */
export type AgentOptions<O = undefined> = {
  name: string;
  instructions: string;
  model: ModelSpec;
  tools?: readonly Tool[] | undefined;
  limits?: Limits | undefined;
  output?: O | undefined;
  verify?: ((answer: OutputOf<O>, context: VerifyContext) => Verdict | Promise<Verdict>) | undefined;
  verifyTimeoutMs?: number | undefined;
  window?: WindowOptions | undefined;
  request?: Record<string, unknown> | undefined;
  version?: string | undefined;
};

export type Agent<Output = unknown> = {
  readonly name: string;
  readonly definition: AgentDefinition;
  /** Of everything that shapes a request. */
  readonly hash: string;
  readonly tools: readonly Tool[];
  readonly code: AgentCode;
  /** The same agent under the operators' policy. */
  readonly codeUnder: (policy: Policy) => AgentCode;
  /** A structured answer as its schema gives it out: defaults and transforms applied. @throws if it does not fit */
  readonly readOutput: (value: unknown) => Output;
};

const reservedFields = ["messages", "model", "stream", "tools"];

const modelSchema = z.custom<ModelSpec>(
  (value) => typeof (value as ModelSpec | undefined)?.client?.call === "function",
  'must be a model, such as openai("gpt-5-mini")',
);

const windowSchema = z.strictObject({
  budgetTokens: z.int().min(200).max(100_000_000).optional(),
  lastTurns: z.int().min(1).max(10_000).default(6),
  remindEvery: z.int().min(0).max(10_000).default(3),
  summarise: z
    .union([
      z.boolean(),
      z.strictObject({ model: modelSchema.optional(), instructions: z.string().min(1).max(100_000).optional() }),
    ])
    .default(true),
});

const optionsSchema = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9._-]{1,128}$/, "must be 1 to 128 letters, digits, '-', '_' or '.'"),
  instructions: z.string(),
  model: modelSchema,
  tools: z
    .array(
      z.custom<Tool>(
        (value) => typeof (value as Tool | undefined)?.execute === "function",
        "must be made by defineTool",
      ),
    )
    .default([]),
  limits: limitsSchema.default({}),
  output: z.unknown().optional(),
  verify: z
    .custom<NonNullable<AgentOptions["verify"]>>((value) => typeof value === "function", "expected a function")
    .optional(),
  verifyTimeoutMs: z
    .int()
    .min(1)
    .max(2 ** 31 - 1)
    .default(60_000),
  window: windowSchema.prefault({}),
  request: z
    .record(z.string(), z.unknown())
    .refine((request) => !reservedFields.some((field) => field in request), `must not set ${reservedFields.join(", ")}`)
    .default({}),
  version: z.string().max(128).optional(),
});
type Checked = z.output<typeof optionsSchema>;

/**
 * Makes an agent out of plain data, checked at once.
 *
 * @throws DroverError "invalid" with every problem found.
 */
export function defineAgent<O = undefined>(options: AgentOptions<O>): Agent<OutputOf<O>> {
  const parsed = optionsSchema.safeParse(options);
  const problems = parsed.success
    ? []
    : parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
  problems.push(...problemsOfTools(options.tools ?? []));
  const output = options.output === undefined ? undefined : tryOutput(options.output, problems);
  if (!parsed.success || problems.length > 0) {
    throw new DroverError("invalid", `Agent "${String(options.name)}" cannot be used: ${problems.join("; ")}.`);
  }
  const { data } = parsed;
  const code = makeCode(data, output, []);
  return {
    name: data.name,
    definition: code.definition,
    hash: code.hash,
    tools: data.tools,
    code,
    codeUnder: (policy) => (policy.length === 0 ? code : makeCode(data, output, policy)),
    readOutput: (value) => readOutput(output, value) as OutputOf<O>,
  };
}

/** An agent as a policy has it: tools that it forbids are not offered, the others are treated as it says. */
function makeCode(options: Checked, output: ToolParameters | undefined, policy: Policy): AgentCode {
  const ruleOn = (tool: string): Ruling => rulingOn(policy, { agent: options.name, tool });
  const offered = options.tools.filter((tool) => !isForbidden(ruleOn(tool.name)));
  const definition = toDefinition({ ...options, tools: offered }, output);
  const hash = hashText(canonical(definition)).slice(0, 22);
  return toCode(options, { definition, hash, output, ruleOn });
}

function problemsOfTools(tools: readonly Tool[]): string[] {
  const names = tools.map((tool) => tool?.name);
  const twice = [...new Set(names.filter((name, index) => names.indexOf(name) !== index))];
  const missing = tools.flatMap((tool) =>
    tool?.fallback !== undefined && !names.includes(tool.fallback)
      ? [`tools: "${tool.name}" names the fallback "${tool.fallback}", which is not among them`]
      : [],
  );
  return [...twice.map((name) => `tools: two tools are named "${name}"; rename one of them`), ...missing];
}

function tryOutput(source: unknown, problems: string[]): ToolParameters | undefined {
  try {
    return toParameters(source);
  } catch (error) {
    problems.push(`output: ${(error as Error).message}`);
    return undefined;
  }
}

function toDefinition(options: Checked, output: ToolParameters | undefined): AgentDefinition {
  const { name, instructions, model, tools, request, limits, version, window } = options;
  const settings: WindowSettings = { ...window, summarise: window.summarise !== false };
  return {
    name,
    instructions,
    model: model.model,
    provider: model.provider,
    tools: tools.map(toolSpec),
    request,
    limits,
    ...(output ? { output: { name: "answer", schema: output.schema } } : {}),
    window: settings,
    version,
  };
}

type Made = {
  definition: AgentDefinition;
  hash: string;
  output: ToolParameters | undefined;
  ruleOn: (tool: string) => Ruling;
};

function toCode(options: Checked, { definition, hash, output, ruleOn }: Made): AgentCode {
  const { model, tools, limits, verify, verifyTimeoutMs, window } = options;
  const summarise = typeof window.summarise === "object" ? window.summarise : {};
  const summaryModel = summarise.model ?? model;
  let counter: ReturnType<typeof tokenCounter> | undefined;
  return {
    definition,
    hash,
    model: model.client,
    modelGate: () => toModelGate(model),
    modelRetry: model.retry,
    get server() {
      return model.server;
    },
    get secrets() {
      return [...(model.secrets ?? []), ...(summaryModel.secrets ?? [])];
    },
    limits,
    tools: createToolCaller(tools, ruleOn),
    answers: {
      parseOutput: output?.parse,
      // A structured answer is checked as its schema gives it out.
      verify: verify && (async (answer, context) => verify(readOutput(output, answer) as string, context)),
      verifyTimeoutMs,
    },
    window: definition.window as WindowSettings,
    summariser: {
      model: summaryModel.client,
      gate: () => toModelGate(summaryModel),
      get named() {
        return { model: summaryModel.model, provider: summaryModel.provider };
      },
      get server() {
        return summaryModel.server;
      },
      retry: summaryModel.retry,
      instructions: summarise.instructions,
    },
    tokens: () => {
      counter ??= tokenCounter(model.model);
      return counter;
    },
  };
}

/** Asked for when it is needed: where a model is served may come from the environment. */
function toModelGate({ model, provider, server, limits }: ModelSpec): ModelGate {
  const where = server ? `${server.address}:${server.port}` : provider;
  return { key: `model:${where}/${model}`, model, ...limits };
}

function readOutput(output: ToolParameters | undefined, value: unknown): unknown {
  // An answer of a version that had an output is text to one that has none.
  if (!output) return typeof value === "string" ? value : JSON.stringify(value);
  const parsed = output.parse(value);
  if (parsed.ok) return parsed.value;
  const { path = "", expected = "", received = "" } = parsed.issues[0] ?? {};
  throw new DroverError(
    "invalid",
    `The answer does not fit this agent's output (${path || "answer"}: expected ${expected}, received ${received}). Another version of the agent wrote it.`,
  );
}
