import type { Content, Message } from "../../core/message.ts";
import { shownText } from "../../core/parts.ts";
import type { Output } from "../output.ts";
import { indent, toOneLine, toPrintable } from "./text.ts";

// Longer results are cut on the screen; `--json` has them whole.
const maxResult = 2000;

/** A transcript as blocks for people: who spoke, what was said, what was called with what, what came back. */
export function toTranscript(messages: readonly Message[], mark: Output["mark"]): string {
  return messages.map((message) => toBlock(message, mark)).join("\n\n");
}

function toBlock(message: Message, mark: Output["mark"]): string {
  if (message.role === "tool") {
    const { outcome } = message;
    const label = outcome === "ok" ? mark("green", "ok") : mark(outcome === "denied" ? "yellow" : "red", outcome);
    return `${mark("bold", "tool")} ${toOneLine(message.name, 128)} ${mark("dim", message.callId)} ${label}\n${body(message.content)}`;
  }
  const lines = [mark("bold", message.role)];
  if (message.content !== null && message.content !== "") lines.push(body(message.content));
  if (message.role === "assistant") {
    if (message.refusal) lines.push(`  ${mark("yellow", "refused:")} ${toOneLine(message.refusal, 500)}`);
    for (const call of message.toolCalls ?? []) {
      const args = toOneLine(call.arguments, 500);
      lines.push(`  ${mark("cyan", "→")} ${toOneLine(call.name, 128)} ${args} ${mark("dim", call.callId)}`);
    }
  }
  return lines.join("\n");
}

function body(content: Content): string {
  const text = toPrintable(shownText(content));
  return indent(
    text.length <= maxResult ? text : `${text.slice(0, maxResult)}… (${text.length} characters in all)`,
    "  ",
  );
}
