import { z } from "zod";
import { type AgentDefinition, type Limits, limitsSchema } from "./core/agent.ts";
import { DroverError } from "./core/errors.ts";
import { canonical, hashText } from "./engine/hash.ts";
import type { AgentCode, ModelSpec } from "./ports.ts";
import { type Tool, toolSpec } from "./tools/define-tool.ts";
import { createToolCaller } from "./tools/tool-caller.ts";

/**
 * An agent.
 * - `name`: what producers start it by; letters, digits, `-`, `_`, `.`;
 * - `instructions`: sent first with every model call, never part of the transcript;
 * - `model`: `openai("...")`, or a scripted model in tests;
 * - `limits`: see `Limits`; `maxTurns` defaults to 15;
 * - `request`: further fields of the model request, under the server's own names (`temperature`, `max_tokens`, ...);
 * - `version`: yours, for reading traces and records.
 */
export type AgentOptions = {
  name: string;
  instructions: string;
  model: ModelSpec;
  tools?: readonly Tool[] | undefined;
  limits?: Limits | undefined;
  request?: Record<string, unknown> | undefined;
  version?: string | undefined;
};

export type Agent = {
  readonly name: string;
  readonly definition: AgentDefinition;
  /** Of everything that shapes a request. */
  readonly hash: string;
  readonly tools: readonly Tool[];
  readonly code: AgentCode;
};

const reservedFields = ["messages", "model", "stream", "tools"];

const optionsSchema = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9._-]{1,128}$/, "must be 1 to 128 letters, digits, '-', '_' or '.'"),
  instructions: z.string(),
  model: z.custom<ModelSpec>(
    (value) => typeof (value as ModelSpec | undefined)?.client?.call === "function",
    'must be a model, such as openai("gpt-5-mini")',
  ),
  tools: z
    .array(
      z.custom<Tool>(
        (value) => typeof (value as Tool | undefined)?.execute === "function",
        "must be made by defineTool",
      ),
    )
    .default([]),
  limits: limitsSchema.default({}),
  request: z
    .record(z.string(), z.unknown())
    .refine((request) => !reservedFields.some((field) => field in request), `must not set ${reservedFields.join(", ")}`)
    .default({}),
  version: z.string().max(128).optional(),
});

/**
 * Makes an agent out of plain data, checked at once.
 *
 * @throws DroverError "invalid" with every problem found.
 */
export function defineAgent(options: AgentOptions): Agent {
  const parsed = optionsSchema.safeParse(options);
  const problems = parsed.success
    ? []
    : parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
  const names = (options.tools ?? []).map((tool) => tool?.name);
  const twice = [...new Set(names.filter((name, index) => names.indexOf(name) !== index))];
  for (const name of twice) problems.push(`tools: two tools are named "${name}"; rename one of them`);
  if (!parsed.success || problems.length > 0) {
    throw new DroverError("invalid", `Agent "${String(options.name)}" cannot be used: ${problems.join("; ")}.`);
  }
  const { name, instructions, model, tools, limits, request, version } = parsed.data;
  const definition: AgentDefinition = {
    name,
    instructions,
    model: model.model,
    provider: model.provider,
    tools: tools.map(toolSpec),
    request,
    limits,
    version,
  };
  const hash = hashText(canonical(definition)).slice(0, 22);
  const code: AgentCode = {
    definition,
    hash,
    model: model.client,
    modelRetry: model.retry,
    get server() {
      return model.server;
    },
    limits,
    tools: createToolCaller(tools),
  };
  return { name, definition, hash, tools, code };
}
