import type { ServerError } from "./server-error.ts";

type Fields = Record<string, unknown>;

const noSystem =
  /system (?:role|message|prompt)s?\b[^.]*\b(?:not|n't|un)\s?(?:be )?(?:supported|allowed)|(?:not|n't) support[^.]*\bsystem (?:role|message|prompt)/i;
const oneCall =
  /single tool[- ]calls?|only (?:one|1|a single) (?:tool|function)[- ]call|(?:multiple|parallel) (?:tool|function)[- ]calls?[^.]*(?:not|n't|un)\s?(?:supported|allowed)|(?:not|n't) support (?:multiple|parallel) (?:tool|function)[- ]calls?/i;
const missing = /required|missing|must be (?:set|given|specified|provided)|must (?:set|specify|provide)/i;

/** Enough for an answer, and what every server of the last years takes. */
const defaultMaxTokens = 4_096;

/**
 * What a server's chat template refuses about the shape of a conversation, as quirks: `role.system` (there is no system
 * message), `calls.single` (one call to an answer), `max_tokens+` (the limit must be given).
 */
export function refusedByTemplate(
  { message, param }: ServerError,
  body: Fields,
  messages: readonly Fields[],
): string[] {
  const found: string[] = [];
  if (noSystem.test(message) && messages.some(({ role }) => role === "system")) found.push("role.system");
  const many = messages.some(({ tool_calls: calls }) => Array.isArray(calls) && calls.length > 1);
  if (many && oneCall.test(message)) found.push("calls.single");
  const isUnlimited = body.max_tokens === undefined && body.max_completion_tokens === undefined;
  if (isUnlimited && /\bmax_tokens\b/.test(`${message} ${param ?? ""}`) && missing.test(message))
    found.push("max_tokens+");
  return found;
}

/** A request's body as those templates take it. The messages are in wire form, and stay in order. */
export function fitTemplate(body: Fields, quirks: ReadonlySet<string>): Fields {
  let messages = body.messages as Fields[];
  if (quirks.has("role.system")) messages = withoutSystem(messages);
  if (quirks.has("calls.single")) messages = oneByOne(messages);
  const isUnlimited = body.max_tokens === undefined && body.max_completion_tokens === undefined;
  return { ...body, messages, ...(isUnlimited && quirks.has("max_tokens+") ? { max_tokens: defaultMaxTokens } : {}) };
}

/** What the system says stands before what the user says first. */
function withoutSystem([first, second, ...rest]: Fields[]): Fields[] {
  if (first?.role !== "system") return [first, second, ...rest].filter((message) => message !== undefined);
  if (second?.role !== "user") return [{ ...first, role: "user" }, ...(second ? [second] : []), ...rest];
  return [{ ...second, content: joined(first.content, second.content) }, ...rest];
}

function joined(before: unknown, after: unknown): unknown {
  if (typeof before === "string" && typeof after === "string") return `${before}\n\n${after}`;
  return [before, after].flatMap((content) =>
    typeof content === "string" ? [{ type: "text", text: content }] : content,
  );
}

/** An answer with several calls as several answers with one, each followed by its result. */
function oneByOne(messages: Fields[]): Fields[] {
  const results = new Map(
    messages.filter(({ role }) => role === "tool").map((message) => [message.tool_call_id, message]),
  );
  const moved = new Set<Fields>();
  return messages.flatMap((message) => {
    const calls = Array.isArray(message.tool_calls) ? (message.tool_calls as Fields[]) : [];
    if (calls.length < 2) return moved.has(message) ? [] : [message];
    return calls.flatMap((call, index) => {
      const result = results.get(call.id);
      if (result) moved.add(result);
      const { role } = message;
      const said = index === 0 ? message : { role, ...("content" in message ? { content: silent(message) } : {}) };
      return [{ ...said, tool_calls: [call] }, ...(result ? [result] : [])];
    });
  });
}

/** An empty content in the form that this server was found to take. */
function silent({ content }: Fields): unknown {
  return content === "" ? "" : null;
}
