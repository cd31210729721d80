import { z } from "zod";
import { type Limits, limitsSchema } from "../core/agent.ts";
import { type ChildFailurePolicy, childFailurePolicies, defaultChildDepth } from "../core/child.ts";
import { DroverError, PermanentError } from "../core/errors.ts";
import type { InputMessage } from "../core/message.ts";
import { type ArgumentsOf, defineTool, type Tool, type ToolOptions } from "./define-tool.ts";
import type { JsonSchema } from "./json-schema.ts";

/**
 * A tool whose calls are runs of another agent: the call waits, without holding a worker, until its child has ended.
 * - `agent`: who works on it, by definition or by name; any worker of the installation may serve it;
 * - `name`: default the agent's; - `description`: default says that the agent works on a task by itself;
 * - `parameters`: a zod object schema, or a JSON Schema of type object; default `{ input: string }`;
 * - `toInput`: the child's input out of the arguments; default: `input` if that is a text, else the arguments as JSON;
 * - `onFailure`: what becomes of the call if its child fails: "continue" (default): the model reads which child failed
 *   and why; "fail": the run fails too, with `child_failed`; "retry": the child is retried from where it failed, and
 *   after `retries` of that as "continue". A child that somebody cancelled is not retried;
 * - `retries`: default 2;
 * - `limits`: of the child, beside its agent's; it may not spend more than its parent has left, nor go on for longer;
 * - `maxDepth`: how deep children may have children, default 5;
 * - `approval`, `approvalExpiresMs`, `maxResultTokens`, `polling`, `rate`, `describe`: as of other tools.
 */
export type AgentToolOptions<P extends z.core.$ZodType | JsonSchema> = Partial<
  Pick<
    ToolOptions<P>,
    | "name"
    | "description"
    | "parameters"
    | "approval"
    | "approvalExpiresMs"
    | "maxResultTokens"
    | "polling"
    | "rate"
    | "describe"
  >
> & {
  agent: string | { readonly name: string };
  toInput?: ((args: ArgumentsOf<P>) => string | InputMessage[]) | undefined;
  onFailure?: ChildFailurePolicy | undefined;
  retries?: number | undefined;
  limits?: Limits | undefined;
  maxDepth?: number | undefined;
};

const optionsSchema = z.looseObject({
  agent: z
    .union([z.string(), z.looseObject({ name: z.string() }).transform(({ name }) => name)])
    .pipe(z.string().regex(/^[A-Za-z0-9._-]{1,128}$/, "expected an agent, or its name")),
  toInput: z
    .custom<NonNullable<Tool["child"]>["toInput"]>((value) => typeof value === "function", "expected a function")
    .optional(),
  onFailure: z.enum(childFailurePolicies).default("continue"),
  retries: z.int().min(0).max(100).default(2),
  limits: limitsSchema.optional(),
  maxDepth: z.int().min(1).max(100).default(defaultChildDepth),
});

const defaultParameters: z.ZodObject<{ input: z.ZodString }> = z.object({
  input: z.string().min(1).describe("The whole task, complete in itself: whoever works on it knows nothing else"),
});

/**
 * Makes a tool that hands a task to another agent, as a run of its own.
 *
 * @throws DroverError "invalid" naming every problem.
 */
export function agentTool<P extends z.core.$ZodType | JsonSchema = typeof defaultParameters>(
  options: AgentToolOptions<P>,
): Tool {
  const parsed = optionsSchema.safeParse(options);
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => `${path.join(".") || "options"}: ${message}`);
    throw new DroverError("invalid", `The tool for an agent cannot be used: ${problems.join("; ")}.`);
  }
  const { agent, toInput = inputOf, onFailure, retries, limits, maxDepth, ...own } = parsed.data;
  const tool = defineTool({
    name: agent,
    description: defaultDescription(agent),
    parameters: defaultParameters,
    ...(own as Partial<ToolOptions<typeof defaultParameters>>),
    // Starting a child twice starts one, and what it does to the world is its own tools' affair.
    effect: "write",
    idempotent: true,
    breaker: false,
    execute: () => {
      throw new PermanentError("an agent works on this; it cannot be executed");
    },
  });
  return Object.freeze({ ...tool, child: { agent, toInput, onFailure, retries, limits, maxDepth } });
}

function defaultDescription(agent: string): string {
  return `Hands a task to the agent "${agent}", which works on it by itself and answers when it is done. It sees nothing but
input: the whole task, with all that is needed for it.
Format: plain text.
Example: {"input":"Find out when the museum opens on Sunday, and what a ticket costs."}`;
}

function inputOf(args: unknown): string {
  const { input } = args as { input?: unknown };
  return typeof input === "string" ? input : JSON.stringify(args);
}
