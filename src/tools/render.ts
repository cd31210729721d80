// Makes message content of whatever a tool returned. Bounded, and it never throws: the tool has had its effect.

import type { Content, ContentPart } from "../core/message.ts";
import { boundAttachments, liftAttachments, textSizeOf, toAttachment } from "./attachments.ts";
import { isObject } from "./json-schema.ts";
import { cleanText, reasonOf } from "./messages.ts";

/** No more of a result than this is kept, in bytes of UTF-8; much less of it is shown to the model. */
export const maxResultBytes: number = 16 * 1024 * 1024;

/**
 * - text: as it is; content parts: as they are; any other value: its JSON;
 * - undefined: "Done.";
 * - over `maxResultBytes`: cut, with a note that says how much is missing;
 * - images, files and audio, as parts or an image's bytes, wherever they stand: as parts after the text;
 * - other bytes are described, not shown; what JSON cannot say is named.
 */
export function renderResult(value: unknown): Content {
  try {
    if (value === undefined) return "Done.";
    if (typeof value === "string") return cutText(value, maxResultBytes);
    const parts = toContentParts(value);
    if (parts) return renderParts(boundAttachments(parts));
    const lifted = liftAttachments(value);
    if (!lifted) return renderJson(value);
    const text = lifted.rest === undefined ? [] : [{ type: "text", text: renderJson(lifted.rest) }];
    return renderParts([...text, ...boundAttachments(lifted.attachments)]);
  } catch (error) {
    return `Done, but the result cannot be shown: ${reasonOf(error)}`;
  }
}

/** The first `maxBytes` of the text, cut between characters, and a note on what is missing. */
export function cutText(text: string, maxBytes: number): string {
  const total = Buffer.byteLength(text);
  if (total <= maxBytes) return cleanText(text);
  const kept = headOf(text, maxBytes);
  return `${cleanText(kept)}\n[cut: the first ${Buffer.byteLength(kept)} of ${total} bytes are shown]`;
}

function headOf(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text.slice(0, maxBytes));
  let end = Math.min(maxBytes, bytes.length);
  // Bytes 10xxxxxx continue a character.
  while (end > 0 && end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end);
}

/** A list of nothing but texts and attachments that hold what their type is about; a listing of files, say, is data. */
function toContentParts(value: unknown): ContentPart[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const parts: (ContentPart | undefined)[] = value.map((part: unknown) => {
    if (!isObject(part)) return undefined;
    if (part.type === "text" || part.type === "refusal") {
      return typeof part[part.type] === "string" ? (part as ContentPart) : undefined;
    }
    return toAttachment(part);
  });
  return parts.every((part) => part !== undefined) ? parts : undefined;
}

function renderParts(parts: ContentPart[]): ContentPart[] {
  const shown: ContentPart[] = [];
  let left = maxResultBytes;
  for (const [index, part] of parts.entries()) {
    const size = textSizeOf(part);
    const fits = size <= left;
    if (fits) shown.push(toPlain(part));
    else if (part.type === "text") shown.push({ ...toPlain(part), text: cutText(String(part.text), left) });
    if (!fits) {
      const more = parts.length - index - (part.type === "text" ? 1 : 0);
      if (more > 0) shown.push({ type: "text", text: `[left out: ${more} more parts, for their size]` });
      break;
    }
    left -= size;
  }
  return shown;
}

function toPlain(part: ContentPart): ContentPart {
  const clean = (_key: string, value: unknown): unknown => (typeof value === "string" ? cleanText(value) : value);
  return JSON.parse(JSON.stringify(part), clean) as ContentPart;
}

function renderJson(value: unknown): string {
  const budget = { left: maxResultBytes };
  const text = JSON.stringify(value, makeReplacer(budget)) as string | undefined;
  if (text === undefined) return `Done. (The result is a ${typeof value}, which has no text.)`;
  const size = Buffer.byteLength(text);
  if (budget.left >= 0 && size <= maxResultBytes) return text;
  const total = budget.left >= 0 ? `of ${size} bytes` : "bytes";
  return `${headOf(text, maxResultBytes)}\n[cut: the first ${Math.min(size, maxResultBytes)} ${total} are shown]`;
}

/** Says in JSON what JSON.stringify would refuse, drop or blow up, and takes little more once the budget is used. */
function makeReplacer(budget: { left: number }): (this: unknown, key: string, value: unknown) => unknown {
  const take = (value: unknown): unknown => {
    if (typeof value === "bigint") return value.toString();
    if (typeof value === "string") {
      const room = Math.max(0, budget.left);
      budget.left -= value.length;
      return value.length <= room ? value : value.slice(0, room);
    }
    if (value instanceof Map || value instanceof Set) return take([...value]);
    if (value instanceof Error) return reasonOf(value);
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes of binary data]`;
    if (!Array.isArray(value) || value.length <= Math.max(0, budget.left)) return value;
    const head = value.slice(0, Math.max(0, budget.left));
    // More elements than budget: whatever is taken of them, the result is cut.
    budget.left = Math.min(budget.left, head.length - 1);
    return head;
  };
  return function replace(key, value) {
    budget.left -= key.length + 2;
    // A Buffer was turned into a list of numbers by its toJSON before this is called; the original is in its holder.
    const original = (this as Record<string, unknown>)[key];
    return take(ArrayBuffer.isView(original) ? original : value);
  };
}
