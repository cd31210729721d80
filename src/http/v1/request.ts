import { z } from "zod";
import { readResultName } from "../../core/result.ts";
import type { HttpContext } from "../types.ts";
import { badField, V1Error } from "./errors.ts";

// What a request may say. Fields that are not known are ignored; those that are known and cannot be honoured are refused
// where ignoring them would change what the request means.

const metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine((value) => Object.keys(value).length <= 16, "must have at most 16 keys")
  .nullish();
const toolName = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "must be 1 to 64 letters, digits, '_' or '-'");
const functionTool = z.looseObject({
  type: z.literal("function"),
  name: toolName,
  description: z.string().nullish(),
  parameters: z.record(z.string(), z.unknown()).nullish(),
});
type FunctionTool = {
  type: "function";
  name: string;
  description?: string | null | undefined;
  parameters?: Record<string, unknown> | null | undefined;
};
/** Tools of other types are told apart later, for an error that says what they are. */
const tool = z.union([functionTool, z.looseObject({ type: z.string() })]);
const textFormat = z.looseObject({
  type: z.string(),
  schema: z.record(z.string(), z.unknown()).optional(),
});

/** The Responses API has the schema beside the type, Chat Completions below `json_schema`. */
type TextFormat = {
  type: string;
  schema?: Record<string, unknown> | undefined;
  json_schema?: { schema?: Record<string, unknown> | undefined } | undefined;
};

/** `POST /v1/responses`. */
const responseBody: z.ZodType<ResponseBody> = z.looseObject({
  model: z.string().min(1),
  input: z.union([z.string().min(1), z.array(z.looseObject({})).min(1)]),
  instructions: z.string().nullish(),
  metadata,
  background: z.boolean().nullish(),
  stream: z.boolean().nullish(),
  previous_response_id: z.string().nullish(),
  conversation: z.union([z.string(), z.looseObject({ id: z.string() })]).nullish(),
  text: z.looseObject({ format: textFormat.nullish() }).nullish(),
  tools: z.array(tool).nullish(),
  tool_choice: z.unknown().optional(),
  parallel_tool_calls: z.boolean().nullish(),
});
export type ResponseBody = {
  model: string;
  input: string | Record<string, unknown>[];
  instructions?: string | null | undefined;
  metadata?: Record<string, string> | null | undefined;
  background?: boolean | null | undefined;
  stream?: boolean | null | undefined;
  previous_response_id?: string | null | undefined;
  conversation?: string | { id: string } | null | undefined;
  text?: { format?: TextFormat | null | undefined } | null | undefined;
  tools?: (FunctionTool | { type: string })[] | null | undefined;
  tool_choice?: unknown;
  parallel_tool_calls?: boolean | null | undefined;
  [other: string]: unknown;
};

/** `POST /v1/chat/completions`. */
const chatBody: z.ZodType<ChatBody> = z.looseObject({
  model: z.string().min(1),
  messages: z.array(z.looseObject({ role: z.string() })).min(1),
  metadata,
  user: z.string().max(512).nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  n: z.int().nullish(),
  response_format: z
    .looseObject({
      type: z.string(),
      json_schema: z.looseObject({ schema: z.record(z.string(), z.unknown()).optional() }).optional(),
    })
    .nullish(),
  tools: z.array(z.looseObject({ type: z.string(), function: functionTool.omit({ type: true }).optional() })).nullish(),
  tool_choice: z.unknown().optional(),
  parallel_tool_calls: z.boolean().nullish(),
});
export type ChatBody = {
  model: string;
  messages: { role: string; [other: string]: unknown }[];
  metadata?: Record<string, string> | null | undefined;
  user?: string | null | undefined;
  stream?: boolean | null | undefined;
  stream_options?: { include_usage?: boolean | null | undefined } | null | undefined;
  n?: number | null | undefined;
  response_format?: TextFormat | null | undefined;
  tools?: { type: string; function?: Omit<FunctionTool, "type"> | undefined }[] | null | undefined;
  tool_choice?: unknown;
  parallel_tool_calls?: boolean | null | undefined;
  [other: string]: unknown;
};

/** A tool of the caller's. */
export type CallerTool = { name: string; description: string; parameters: Record<string, unknown> };

export async function readResponseBody(context: HttpContext): Promise<ResponseBody> {
  const body = parse(responseBody, await readJson(context));
  refuseFields(body, unsupportedOfResponses);
  if (body.previous_response_id && body.conversation) {
    throw badField("conversation", "Give either conversation or previous_response_id, not both.");
  }
  return body;
}

export async function readChatBody(context: HttpContext): Promise<ChatBody> {
  const body = parse(chatBody, await readJson(context));
  refuseFields(body, unsupportedOfChat);
  if ((body.n ?? 1) !== 1) throw badField("n", "One run gives one answer: n must be 1.");
  return body;
}

async function readJson(context: HttpContext): Promise<unknown> {
  const text = await context.req.text();
  try {
    return JSON.parse(text);
  } catch {
    throw new V1Error(400, "The body must be JSON, and is not.");
  }
}

function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw misfit(parsed.error);
}

/** @param at where the value is that does not fit. */
function misfit({ issues: [issue] }: z.ZodError, at: readonly PropertyKey[] = []): V1Error {
  const param = toParam([...at, ...(issue?.path ?? [])]);
  return badField(param, `${param}: ${issue?.message ?? "does not fit"}.`);
}

/** `input[0].content`, as OpenAI names fields; `body` for the whole. */
export function toParam(path: readonly PropertyKey[]): string {
  const text = path.map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`)).join("");
  return text.replace(/^\./, "") || "body";
}

type Unsupported = Record<string, { allowed?: readonly unknown[]; why: string }>;

const sameFleet = {
  parallel_tool_calls: { allowed: [true], why: "whether a model may make several calls at once is the agent's" },
};
const unsupportedOfResponses: Unsupported = {
  ...sameFleet,
  prompt: { why: "prompt templates are not kept here; the agent has its instructions" },
  max_tool_calls: { why: "an agent's limits are its own and the run's" },
  context_management: { why: "the agent's window decides what a model is sent" },
  background_options: { why: "runs begin as soon as a worker is free" },
  top_logprobs: { allowed: [0], why: "an agent's answer has no probabilities" },
};
const unsupportedOfChat: Unsupported = {
  ...sameFleet,
  functions: { why: "give tools instead" },
  function_call: { why: "give tools instead" },
  logprobs: { allowed: [false], why: "an agent's answer has no probabilities" },
  top_logprobs: { allowed: [0], why: "an agent's answer has no probabilities" },
  audio: { why: "agents answer in text" },
  web_search_options: { why: "an agent has its own tools" },
};

function refuseFields(body: Record<string, unknown>, unsupported: Unsupported): void {
  for (const [field, { allowed = [], why }] of Object.entries(unsupported)) {
    const value = body[field];
    if (value === undefined || value === null || allowed.includes(value)) continue;
    // Without tools of the caller's there is nothing that it could mean.
    if (field === "parallel_tool_calls" && !(body.tools as unknown[] | undefined)?.length) continue;
    throw badField(field, `${field} is not supported: ${why}.`, "unsupported_parameter");
  }
}

/**
 * The caller's tools, if they may be called; hosted tools are refused.
 *
 * @param taken names of the agent's own tools.
 * @param inner where a tool's fields are: in the tool itself, or in a field of it.
 */
export function callerToolsOf(
  body: Pick<ResponseBody, "tools" | "tool_choice">,
  taken: string[],
  inner: readonly string[] = [],
): CallerTool[] {
  const tools = (body.tools ?? []).map((given, index): CallerTool => {
    const parsed = functionTool.safeParse(given);
    if (parsed.success) {
      const { name, description, parameters } = parsed.data;
      return { name, description: description ?? "", parameters: parameters ?? { type: "object", properties: {} } };
    }
    if (given.type === "function") throw misfit(parsed.error, ["tools", index, ...inner]);
    const what = `Tools of type "${given.type}" are not hosted here`;
    const message = `${what}. Give the agent a tool of its own, or a function tool that you execute.`;
    throw badField(toParam(["tools", index, "type"]), message);
  });
  const names = tools.map(({ name }) => name);
  const nameOf = (index: number): string => toParam(["tools", index, ...inner, "name"]);
  const twice = names.findIndex((name, index) => names.indexOf(name) !== index);
  if (twice !== -1) throw badField(nameOf(twice), `Two tools are named "${names[twice]}".`);
  const own = names.findIndex((name) => name === readResultName || taken.includes(name));
  if (own !== -1) throw badField(nameOf(own), `The agent has a tool named "${names[own]}". Choose another name.`);
  return choose(tools, body.tool_choice);
}

function choose(tools: CallerTool[], choice: unknown): CallerTool[] {
  if (choice === undefined || choice === null || choice === "auto") return tools;
  if (choice === "none") return [];
  throw badField("tool_choice", 'tool_choice must be "auto" or "none": an agent decides itself what it calls.');
}

/** The same for Chat Completions, whose tools are nested. */
export function chatToolsOf(body: Pick<ChatBody, "tools" | "tool_choice">, taken: string[]): CallerTool[] {
  const flat = (body.tools ?? []).map(({ type, function: inner }) => ({ type, ...(type === "function" ? inner : {}) }));
  return callerToolsOf({ tools: flat, tool_choice: body.tool_choice }, taken, ["function"]);
}
