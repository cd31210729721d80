// What tools brought beside text, shown to the model after the last result of a turn. Pure.

import type { Content, ContentPart, ToolMessage } from "../core/message.ts";
import { fitResult } from "./parts.ts";
import type { Quirks } from "./quirks.ts";

type Body = Record<string, unknown>;

/** The results of one turn: how often each tool was called so far, and what is still to be shown. */
export type TurnResults = { callers: Map<string, number>; attached: ContentPart[] };

export function startResults(): TurnResults {
  return { callers: new Map(), attached: [] };
}

/** One result as its tool message; what it cannot hold is kept in `results` to be shown after the last one. */
export function toResult(message: ToolMessage, results: TurnResults, quirks: Quirks): Body {
  const number = (results.callers.get(message.name) ?? 0) + 1;
  results.callers.set(message.name, number);
  const caller = number === 1 ? message.name : `${message.name} #${number}`;
  const { content, attached } = fitResult(message.content, caller, quirks);
  results.attached.push(...attached);
  return { role: "tool", tool_call_id: message.toolCallId, content };
}

const bridge: Body = { role: "assistant", content: "[What the tools brought is shown next.]" };

/**
 * One user message with all attachments goes before the message that follows the results, or becomes part of it. Orders of
 * attempts: right after the results; where roles must alternate, after a bridge of the assistant (`results.shown` was
 * refused); where that is refused too (`results.bridged`), only descriptions are sent, in the tool messages.
 */
export function showAttached({ attached }: TurnResults, next: Body | undefined, quirks: Quirks): Body[] {
  const after = next ? [next] : [];
  if (attached.length === 0) return after;
  const before = quirks.has("results.shown") ? [bridge] : [];
  if (next?.role !== "user") return [...before, { role: "user", content: attached }, ...after];
  return [...before, { ...next, content: [...attached, ...toParts(next.content as Content)] }];
}

function toParts(content: Content): ContentPart[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}
