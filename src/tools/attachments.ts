// Images and files in what a tool returned: found wherever they stand, bounded, taken out of the text.

import type { ContentPart } from "../core/message.ts";
import { dataOf, describePart, imageUrlOf, isAttachment, kindOf, problemsOfPart, toSize } from "../core/parts.ts";
import { readImage } from "./media-type.ts";
import { imagePart, maxPartBytes } from "./parts.ts";

/** What is left of a result, a note in the place of each attachment, and the attachments. `rest` is undefined if nothing is. */
export type Lifted = { rest: unknown; attachments: ContentPart[] };

const maxDepth = 32;
const maxValues = 20_000;

/**
 * Takes content parts and bytes of images out of a value: the value itself, or what its lists and plain objects hold.
 * Undefined if there are none. Values are looked at up to a depth and a number; what lies beyond stays where it is.
 */
export function liftAttachments(value: unknown): Lifted | undefined {
  const attachments: ContentPart[] = [];
  const counts = new Map<string, number>();
  let left = maxValues;
  const lift = (inner: unknown, depth: number): unknown => {
    left -= 1;
    if (left < 0 || depth > maxDepth || typeof inner !== "object" || inner === null) return inner;
    const part = toAttachment(inner);
    if (part) {
      attachments.push(part);
      const number = (counts.get(part.type) ?? 0) + 1;
      counts.set(part.type, number);
      return `[${kindOf(part)} ${number}]`;
    }
    if (Array.isArray(inner)) return mapList(inner, (one) => lift(one, depth + 1));
    return isPlain(inner) ? mapObject(inner, (one) => lift(one, depth + 1)) : inner;
  };
  const rest = lift(value, 0);
  if (attachments.length === 0) return undefined;
  // The value itself was one: nothing is left.
  return { rest: typeof rest === "string" ? undefined : rest, attachments };
}

/** Bytes that are an image, or a part that holds what its type is about. */
export function toAttachment(value: object): ContentPart | undefined {
  if (value instanceof Uint8Array || value instanceof ArrayBuffer) {
    const bytes = value instanceof ArrayBuffer ? new Uint8Array(value) : value;
    return bytes.length <= maxPartBytes && readImage(bytes) ? imagePart(bytes) : undefined;
  }
  const { type } = value as { type?: unknown };
  if (typeof type !== "string" || !isAttachment(value as ContentPart)) return undefined;
  const part = tidy(value as ContentPart);
  return problemsOfPart(part).length === 0 ? part : undefined;
}

/** An image in the one form that servers take: its address in an object, a `data:` URL without line breaks or capitals. */
function tidy(part: ContentPart): ContentPart {
  const url = imageUrlOf(part);
  if (url === undefined) return part;
  const data = dataOf(part);
  const plain = data ? `data:${data.mediaType};base64,${data.base64.replaceAll(/\s+/g, "")}` : url;
  if (plain === url && typeof part.image_url === "object") return part;
  const more = typeof part.image_url === "object" ? part.image_url : {};
  return { ...part, image_url: { ...more, url: plain } };
}

/** Lists and objects that hold no attachment stay the same. */
function mapList(list: unknown[], map: (one: unknown) => unknown): unknown[] {
  if (list.length > maxValues) return list;
  const mapped = list.map(map);
  return mapped.some((one, index) => one !== list[index]) ? mapped : list;
}

function mapObject(object: object, map: (one: unknown) => unknown): object {
  if (Object.keys(object).length > maxValues) return object;
  const entries = Object.entries(object);
  const mapped = entries.map(([key, one]) => [key, map(one)] as const);
  return mapped.some(([, one], index) => one !== entries[index]?.[1]) ? Object.fromEntries(mapped) : object;
}

/** An object that JSON shows by its fields. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return (prototype === Object.prototype || prototype === null) && !("toJSON" in value);
}

/** Parts whose attachments together are no larger than one part may be; what is over that is named in text instead. */
export function boundAttachments(parts: readonly ContentPart[]): ContentPart[] {
  let left = maxPartBytes;
  return parts.map((part) => {
    if (!isAttachment(part)) return part;
    const bytes = dataOf(part)?.bytes ?? 0;
    if (bytes <= left) {
      left -= bytes;
      return withSize(part);
    }
    const limit = `a result holds at most ${toSize(maxPartBytes)} of attachments`;
    return { type: "text", text: `[left out: ${describePart(part)}; ${limit}]` };
  });
}

/** What a part counts towards the length of a result's text, in bytes: attachments have a bound of their own. */
export function textSizeOf(part: ContentPart): number {
  return isAttachment(part) && dataOf(part) ? 0 : Buffer.byteLength(JSON.stringify(part));
}

/** An image that came as a part says its size in pixels too. */
function withSize(part: ContentPart): ContentPart {
  const data = part.type === "image_url" && part.width === undefined ? dataOf(part) : undefined;
  const facts = data && readImage(Buffer.from(data.base64, "base64"));
  return facts ? { ...part, width: facts.width, height: facts.height } : part;
}
