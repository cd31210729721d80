// What things take in a store, about: the bytes of their JSON. Told without writing them as JSON, which costs more.

import type { Content, Message, ToolMessage } from "./message.ts";
import type { RunError } from "./run.ts";

/** Names, quotes and the commit's token around a message; about what a feed entry takes beside what it quotes. */
const messageOverhead = 100;
const feedEntryOverhead = 250;

/** Bytes of a text in UTF-8, as JSON escapes it. */
export function textBytes(text: string): number {
  let bytes = text.length;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit < 0x80) bytes += escapeBytes(unit);
    // Half of a pair takes two of its four bytes.
    else bytes += unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 1 : 2;
  }
  return bytes;
}

/** What JSON adds to a character of ASCII: a backslash, or five more for most control characters. */
function escapeBytes(unit: number): number {
  if (unit === 0x22 || unit === 0x5c) return 1;
  if (unit >= 0x20) return 0;
  return unit === 0x08 || unit === 0x09 || unit === 0x0a || unit === 0x0c || unit === 0x0d ? 1 : 5;
}

/** Bytes of a message's or a result's content. */
export function contentBytes(content: Content | null | undefined): number {
  if (typeof content === "string") return textBytes(content);
  return content ? textBytes(JSON.stringify(content)) : 0;
}

/** Bytes of a message as it is stored. */
export function messageBytes(message: Message): number {
  const bytes = messageOverhead + contentBytes(message.content);
  if (message.role === "tool") return bytes + keptBytes(message);
  if (message.role !== "assistant") return bytes;
  const calls = message.toolCalls ?? [];
  const extra = message.extra ? textBytes(JSON.stringify(message.extra)) : 0;
  const refusal = message.refusal ? textBytes(message.refusal) : 0;
  return calls.reduce((sum, call) => sum + messageOverhead + textBytes(call.arguments), bytes + extra + refusal);
}

/** What was cut out of a result and lies beside the transcript, or with the message. */
function keptBytes({ full }: ToolMessage): number {
  return full ? full.bytes : 0;
}

/** What in a feed entry may be long. */
type Quoting = { error?: RunError | undefined; text?: string; reason?: string };

/** Bytes of a feed entry, by what it may quote. */
export function feedEntryBytes(entry: object): number {
  const { error, text = "", reason = "" }: Quoting = entry;
  return feedEntryOverhead + textBytes(error?.message ?? "") + textBytes(text) + textBytes(reason);
}
