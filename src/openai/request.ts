import type { AssistantMessage, Content, Message, ToolMessage } from "../core/message.ts";
import { outputInstructions } from "../core/output.ts";
import { toLegalName, toLegalNames } from "../core/reply-names.ts";
import type { ModelRequest } from "../ports.ts";
import { toResponseFormat } from "./output.ts";
import { fitContent } from "./parts.ts";
import type { Quirks } from "./quirks.ts";
import { showAttached, startResults, toResult } from "./results.ts";
import { adaptSchema, type SchemaQuirks } from "./schema.ts";
import { fitTemplate } from "./templates.ts";

export type RequestSettings = { model: string; stream: boolean; quirks: Quirks };
type Body = Record<string, unknown>;

/** The body of a Chat Completions request. Pure: the same request and settings give the same body. */
export function toRequestBody(request: ModelRequest, settings: RequestSettings): Body {
  const { quirks } = settings;
  const legal = toLegalNames(request.tools.map(({ name }) => name));
  const legalOf = (name: string): string => legal.get(name) ?? toLegalName(name);
  const schemaQuirks = toSchemaQuirks(quirks);
  const body: Body = {
    ...request.request,
    model: settings.model,
    messages: toMessages(request, legalOf, quirks),
  };
  if (request.tools.length > 0) {
    body.tools = request.tools.map(({ name, description, parameters }) => ({
      type: "function",
      function: { name: legalOf(name), description, parameters: adaptSchema(parameters, schemaQuirks) },
    }));
  }
  if (request.output && !quirks.has("response_format")) {
    body.response_format ??= toResponseFormat(request.output, { mayBeStrict: !quirks.has("response_format.strict") });
  }
  if (settings.stream) {
    body.stream = true;
    body.stream_options = { ...(request.request.stream_options as object | undefined), include_usage: true };
  }
  return toWellFormed(fitTemplate(applyFieldQuirks(body, quirks), quirks)) as Body;
}

function toSchemaQuirks(quirks: Quirks): SchemaQuirks {
  const keywords = [...quirks].filter((quirk) => quirk.startsWith("schema.")).map((quirk) => quirk.slice(7));
  return { keywords: new Set(keywords), typeLists: quirks.has("schema.type[]") };
}

function applyFieldQuirks(body: Body, quirks: Quirks): Body {
  const result = { ...body };
  for (const quirk of quirks) {
    const [field = "", renamed] = quirk.split(">");
    if (!Object.hasOwn(result, field)) continue;
    if (renamed !== undefined) result[renamed] = result[field];
    delete result[field];
  }
  if (result.stream === undefined) delete result.stream_options;
  return result;
}

function toMessages(request: ModelRequest, legalOf: (name: string) => string, quirks: Quirks): Body[] {
  const { messages } = request;
  const instructions = instructionsOf(request, quirks);
  // Strict templates take one system message, and only in front.
  const firstOther = messages.findIndex(({ role }) => role !== "system" && role !== "developer");
  const leading = messages.slice(0, firstOther === -1 ? messages.length : firstOther);
  const rest = messages.slice(leading.length);
  const system: Content[] = [
    ...(instructions === "" ? [] : [instructions]),
    ...leading.map(({ content }) => fitContent(content ?? "", quirks)),
  ];
  return [...joinSystem(system), ...toHistory(rest, legalOf, quirks)];
}

function toHistory(messages: readonly Message[], legalOf: (name: string) => string, quirks: Quirks): Body[] {
  const history: Body[] = [];
  let results = startResults();
  for (const message of messages) {
    if (message.role === "tool") {
      history.push(toResult(message, results, quirks));
      continue;
    }
    const wire = toWireMessage(message, legalOf, quirks);
    if (wire === undefined) continue;
    history.push(...showAttached(results, wire, quirks));
    results = startResults();
  }
  return [...history, ...showAttached(results, undefined, quirks)];
}

/** Where the server does not enforce the form of the answer, the model is told. */
function instructionsOf({ instructions, output }: ModelRequest, quirks: Quirks): string {
  if (!output || !quirks.has("response_format")) return instructions;
  const told = outputInstructions(output.schema);
  return instructions === "" ? told : `${instructions}\n\n${told}`;
}

function joinSystem(contents: Content[]): Body[] {
  if (contents.length === 0) return [];
  const joined = contents.every((content) => typeof content === "string")
    ? contents.join("\n\n")
    : contents.flatMap((content) => (typeof content === "string" ? [{ type: "text", text: content }] : content));
  return [{ role: "system", content: joined }];
}

function toWireMessage(
  message: Exclude<Message, ToolMessage>,
  legalOf: (name: string) => string,
  quirks: Quirks,
): Body | undefined {
  switch (message.role) {
    case "system":
    case "developer":
      // Every server knows "system", and those that know "developer" take both alike.
      return { role: "system", content: fitContent(message.content, quirks) };
    case "user": {
      const content = fitContent(message.content, quirks);
      return { role: "user", content, ...(message.name ? { name: message.name } : {}) };
    }
    case "assistant":
      return toAssistant(message, legalOf, quirks);
  }
}

/** An earlier answer as it is sent back; undefined for one that says nothing, which strict servers refuse. */
function toAssistant(message: AssistantMessage, legalOf: (name: string) => string, quirks: Quirks): Body | undefined {
  const calls = message.toolCalls ?? [];
  const content = fitContent(message.content ?? "", quirks);
  const spoken = content.length === 0 ? (message.refusal ?? "") : content;
  if (calls.length === 0 && (spoken === "" || (typeof spoken === "string" && spoken.trim() === ""))) return undefined;
  const extra = Object.entries(message.extra ?? {}).filter(([field]) => !quirks.has(`message.${field}`));
  return {
    ...Object.fromEntries(extra),
    role: "assistant",
    ...(spoken === "" ? emptyContent(quirks) : { content: spoken }),
    ...(calls.length > 0 ? { tool_calls: calls.map((call) => toWireCall(call, legalOf)) } : {}),
  };
}

function toWireCall(call: NonNullable<AssistantMessage["toolCalls"]>[number], legalOf: (name: string) => string): Body {
  const { function: functionExtra, ...extra } = call.extra ?? {};
  return {
    ...extra,
    id: call.id,
    type: "function",
    function: { ...(functionExtra as object | undefined), name: legalOf(call.name), arguments: call.arguments },
  };
}

/** Servers disagree on how a turn of nothing but calls is written: null first, then as this server wants it. */
function emptyContent(quirks: Quirks): Body {
  if (quirks.has('content.""')) return {};
  return { content: quirks.has("content.null") ? "" : null };
}

/** Half a surrogate pair is no text: strict parsers refuse the request, and every later one of the run with it. */
function toWellFormed(value: unknown): unknown {
  if (typeof value === "string") return value.isWellFormed() ? value : value.toWellFormed();
  if (Array.isArray(value)) return value.map((item) => toWellFormed(item));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key.toWellFormed(), toWellFormed(inner)]));
}
