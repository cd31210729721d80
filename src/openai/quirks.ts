import { z } from "zod";
import { refusedParts } from "./parts-refusal.ts";
import { keywordsOf } from "./schema.ts";
import type { ServerError } from "./server-error.ts";
import { refusedByTemplate } from "./templates.ts";

/**
 * What one server was found to refuse, by name:
 * - `stream_options`: a field of the request, left out;
 * - `response_format.strict`: the schema of answers as one to keep to strictly, sent as one that is not;
 * - `max_tokens>max_completion_tokens`: a field that has another name there;
 * - `schema.additionalProperties`: a keyword of tool schemas, left out or written otherwise; `schema.type[]`: lists of types;
 * - `message.reasoning_content`: a field of earlier answers, left out;
 * - `role.system`, `calls.single`, `max_tokens+`: see `refusedByTemplate`;
 * - `content.null`, then `content.""`: that form of an empty content;
 * - `part.image_url`, `part.file`, `part.input_audio`: parts of that type, described instead; `content.parts`: all parts,
 *   joined to one text; `results.shown`, then `results.bridged`: attachments after the results of tools.
 */
export type Quirks = ReadonlySet<string>;

const refusedWords =
  /unsupported|not supported|n't support|not support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|not accepted|extra (?:inputs?|fields?)|not a valid|invalid (?:field|parameter|argument|property)|cannot find|no such (?:field|parameter)|not (?:implemented|available)|not repeating/i;
const refusedCodes = new Set([
  "unsupported_parameter",
  "unknown_parameter",
  "unsupported_value",
  "unrecognized_parameter",
]);

/** Without these a request is none, or the model loses its tools. */
const neededFields = new Set(["model", "messages", "tools"]);
const neededKeywords = new Set(["type", "properties", "items", "required", "description", "enum"]);

const messageSchema = z.looseObject({
  role: z.string(),
  content: z.unknown(),
  tool_calls: z.array(z.unknown()).optional(),
});
const bodySchema = z.looseObject({
  messages: z.array(messageSchema),
  tools: z.array(z.object({ function: z.object({ parameters: z.unknown() }) })).optional(),
});

/**
 * What a refused request was refused for, if it is something that can be left out.
 *
 * @param raw the whole body of the refusal; default: nothing beside the error.
 * @returns a quirk that is not known yet, or undefined if the refusal is about something else.
 */
export function findQuirk(
  error: ServerError,
  sent: Record<string, unknown>,
  known: Quirks,
  raw: string = "",
): string | undefined {
  const body = bodySchema.parse(sent);
  // Local servers call this a 500, routers a 404.
  const part = refusedParts(error, body.messages, raw).find((candidate) => !known.has(candidate));
  if (part !== undefined) return part;
  const shape = refusedByTemplate(error, body, body.messages).find((candidate) => !known.has(candidate));
  if (shape !== undefined) return shape;
  const text = `${error.message} ${error.param ?? ""}`;
  const format = refusedFormat(error, text, body);
  if (error.status !== 400 && error.status !== 422) return format.find((candidate) => !known.has(candidate));
  const isRefusal = refusedWords.test(text) || refusedCodes.has(error.code ?? "");
  const candidates = [
    // A schema that is refused as strict is no refusal of the field that holds it.
    ...format.filter((candidate) => candidate !== "response_format"),
    ...(isRefusal ? refusedFields(error, text, body) : []),
    ...format,
    ...(isRefusal ? refusedKeywords(text, body) : []),
    ...(isRefusal ? refusedMessageFields(text, body) : []),
    ...refusedContent(text, body),
  ];
  return candidates.find((candidate) => !known.has(candidate));
}

type Body = z.infer<typeof bodySchema>;

function refusedFields(error: ServerError, text: string, body: Body): string[] {
  const named = Object.keys(body).filter((field) => !neededFields.has(field) && names(text, field));
  // The field that the server points at goes before one that its message happens to mention.
  named.sort((a, b) => Number(error.param === b) - Number(error.param === a));
  const renames: [string, string][] = [
    ["max_tokens", "max_completion_tokens"],
    ["max_completion_tokens", "max_tokens"],
  ];
  return named.map((field) => {
    const rename = renames.find(([from, to]) => from === field && names(text, to) && !Object.hasOwn(body, to));
    return rename ? rename.join(">") : field;
  });
}

const formatWords =
  /response[ _-]?(?:format|schema|mime)|json[ _-]?(?:schema|mode|object)|structured[ _-]?outputs?|output[ _-]?(?:format|schema)|guided|grammar/i;
/** Local servers call it a failure of their own, routers say that nobody takes it. */
const formatStatuses = new Set([undefined, 400, 404, 422, 500, 501]);

/** A form of answers that a server cannot enforce, or not this one; it is told to the model instead. */
function refusedFormat({ status, code }: ServerError, text: string, body: Body): string[] {
  // An answer of the model that did not fit the form is no refusal of the form.
  if (!formatStatuses.has(status) || code === "json_validate_failed") return [];
  if (!Object.hasOwn(body, "response_format") || !formatWords.test(text)) return [];
  const isBroken = status === 400 || status === 422;
  if (!isBroken && !refusedWords.test(text) && !/fail|cannot|can't|invalid/i.test(text)) return [];
  const isStrict = formatSchema.safeParse(body.response_format).success;
  return [...(isStrict && /invalid schema|strict/i.test(text) ? ["response_format.strict"] : []), "response_format"];
}

const formatSchema = z.object({ json_schema: z.object({ strict: z.literal(true) }) });

function refusedKeywords(text: string, body: Body): string[] {
  const schemas = (body.tools ?? []).map((tool) => tool.function.parameters);
  const keywords = [...keywordsOf(schemas)];
  const refused = keywords
    .filter((keyword) => !neededKeywords.has(keyword) && isQuoted(text, keyword))
    .map((keyword) => `schema.${keyword}`);
  if (isQuoted(text, "type") && /repeating|list|array/i.test(text) && /"type":\[/.test(JSON.stringify(schemas))) {
    refused.push("schema.type[]");
  }
  return refused;
}

function refusedMessageFields(text: string, body: Body): string[] {
  const ownFields = new Set(["role", "content", "tool_calls", "tool_call_id", "name"]);
  const fields = new Set(body.messages.flatMap((message) => Object.keys(message)));
  return [...fields].filter((field) => !ownFields.has(field) && names(text, field)).map((field) => `message.${field}`);
}

function refusedContent(text: string, body: Body): string[] {
  if (!names(text, "content") || !/null|string|empty|required|must|missing|invalid/i.test(text)) return [];
  const withCalls = body.messages.filter((message) => message.tool_calls !== undefined);
  if (withCalls.some((message) => message.content === null)) return ["content.null"];
  return withCalls.some((message) => message.content === "") ? ['content.""'] : [];
}

function names(text: string, word: string): boolean {
  return new RegExp(`(?<![\\w$])${escape(word)}(?!\\w)`, "i").test(text);
}

function isQuoted(text: string, word: string): boolean {
  return new RegExp(`["'\`]${escape(word)}["'\`]`).test(text) || (word.length > 6 && names(text, word));
}

function escape(word: string): string {
  return word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
