// Makes message content of whatever a tool returned. Bounded, and it never throws: the tool has had its effect.

import type { Content, ContentPart } from "../core/message.ts";
import { boundAttachments, type Lifted, liftAttachments, textSizeOf, toAttachment } from "./attachments.ts";
import { isObject } from "./json-schema.ts";
import { cleanText, reasonOf } from "./messages.ts";
import { writeJson } from "./write-json.ts";

/** No more of a result than this is kept, in bytes of UTF-8 (a message, by default, holds more); much less is shown to the model. */
export const maxResultBytes: number = 12 * 1024 * 1024;

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
    const lifted = liftSafely(value);
    if (!lifted) return renderJson(value);
    const text = lifted.rest === undefined ? [] : [{ type: "text", text: renderJson(lifted.rest) }];
    return renderParts([...text, ...boundAttachments(lifted.attachments)]);
  } catch (error) {
    return `Done, but the result cannot be shown: ${reasonOf(error)}`;
  }
}

/** Where a property throws, attachments are not looked for. */
function liftSafely(value: unknown): Lifted | undefined {
  try {
    return liftAttachments(value);
  } catch {
    return undefined;
  }
}

/** The first `maxBytes` of the text, cut between characters, and a note on what is missing. */
export function cutText(text: string, maxBytes: number): string {
  if (text.length <= maxBytes && Buffer.byteLength(text) <= maxBytes) return cleanLong(text);
  return withNote(cleanLong(headOf(text, maxBytes)), text.length);
}

/** As `cleanText`, in little time also where a text is full of NUL. */
function cleanLong(text: string): string {
  if (text.length < 65_536 || !text.includes("\0")) return cleanText(text);
  const bytes = Buffer.from(text.toWellFormed(), "utf16le");
  for (let at = 0; at < bytes.length; at += 2) {
    if (bytes[at] !== 0 || bytes[at + 1] !== 0) continue;
    bytes[at] = 0xfd;
    bytes[at + 1] = 0xff;
  }
  return bytes.toString("utf16le");
}

function headOf(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text.slice(0, maxBytes));
  let end = Math.min(maxBytes, bytes.length);
  // Bytes 10xxxxxx continue a character.
  while (end > 0 && end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end);
}

/** A longer list is data. */
const maxParts = 1_000;

/** A list of nothing but texts and attachments that hold what their type is about; a listing of files, say, is data. */
function toContentParts(value: unknown): ContentPart[] | undefined {
  if (!Array.isArray(value) || value.length === 0 || value.length > maxParts) return undefined;
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
    else if (part.type === "text") shown.push({ type: "text", text: cutText(String(part.text), left) });
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
  const written = writeJson(value, maxResultBytes);
  if (written === undefined) return `Done. (The result is a ${typeof value}, which has no text.)`;
  const { text, whole } = written;
  if (whole && Buffer.byteLength(text) <= maxResultBytes) return text;
  return withNote(headOf(text, maxResultBytes), whole ? text.length : undefined);
}

/** What was kept, and that it is not all; `total` in characters, if it is known. */
function withNote(kept: string, total: number | undefined): string {
  const of = total === undefined ? "" : ` of ${total}`;
  return `${kept}\n[cut: the result was too long, and only its first ${kept.length}${of} characters are kept]`;
}
